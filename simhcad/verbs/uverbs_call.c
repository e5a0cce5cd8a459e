/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <string.h>

#include "uverbs.h"

void uverbs_in(const struct uverbs_call *call, enum simhca_uverbs_part part, void *to, size_t size)
{
	size_t there = call->in_size[part];

	memset(to, 0, size);
	memcpy(to, call->in[part], there < size ? there : size);
}

void uverbs_out(struct uverbs_call *call, enum simhca_uverbs_part part, const void *from,
		size_t size)
{
	size_t used = part == SIMHCA_UVERBS_CORE ? 0 : call->answer->out[SIMHCA_UVERBS_CORE];

	memcpy(call->answer->data + used, from, size);
	call->answer->out[part] = (uint16_t)size;
}

int uverbs_run(struct uverbs_call *call, unsigned int command, void *body, struct reply *reply)
{
	struct request request = *call->request;
	int ret;

	request.body = body;
	ret = call->find(command)->handler(call->session, &request, reply, call->why);
	request.body = call->request->body;
	*call->request = request;
	return ret;
}
