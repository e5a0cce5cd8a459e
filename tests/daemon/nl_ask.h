/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Asking the model's devices by RDMA netlink, and taking what is answered. */
#ifndef SIMHCA_TEST_NL_ASK_H
#define SIMHCA_TEST_NL_ASK_H

#include "../c/harness.h"
#include "nl_scene.h"
#include "netlink/nl_talk.h"

#define PORT 77u /* netlink address of who asks */
#define SEQ 4711u
#define MANY 300u /* objects: more than fit into one part of a list */

struct scene {
	struct world *world;
	struct daemon *daemon;
	struct nl_talk talk;
	struct nl_asker asker;
};

/* cmocka fixtures; *state is the scene. */
int nl_begin_ethernet(void **state);
int nl_begin_infiniband(void **state);
int nl_end(void **state);

#define TEST(name) cmocka_unit_test_setup_teardown(name, nl_begin_ethernet, nl_end)
#define TEST_INFINIBAND(name)                                                                      \
	{                                                                                          \
#name " (InfiniBand)", name, nl_begin_infiniband, nl_end, NULL                     \
	}

/* A program with the device open. */
struct client *nl_program(struct scene *scene, unsigned int device, pid_t pid);

/* A question with device and port, unless they are -1. */
struct nl_msg *nl_question(int command, int flags, int device, int port);
void nl_ask_bytes(struct scene *scene, const void *bytes, size_t length);
/* Takes the question. */
void nl_ask(struct scene *scene, struct nl_msg *msg);

/* The next datagram, which is one well-formed message to the one who asks; NULL: there is none. */
struct nl_msg *nl_next(struct scene *scene);
void nl_expect_silence(struct scene *scene);
void nl_expect_error(struct scene *scene, int error);
void nl_expect_done(struct scene *scene, int error);

/* An answer's attributes; they stay there until the next call, or for good with nl_keep(). */
struct nl_answer {
	struct nlattr *attr[RDMA_NLDEV_ATTR_MAX];
};
/* False: it was the end of a list. */
bool nl_take(struct scene *scene, int command, int flags, struct nl_answer *answer);
struct nl_answer nl_answer_to(struct scene *scene, int command, struct nl_msg *msg);
/* The message that was taken last; the caller's from here on. */
struct nl_msg *nl_keep(void);

#define u8_of(answer, name) nla_get_u8((answer)->attr[RDMA_NLDEV_ATTR_##name])
#define u32_of(answer, name) nla_get_u32((answer)->attr[RDMA_NLDEV_ATTR_##name])
#define u64_of(answer, name) nla_get_u64((answer)->attr[RDMA_NLDEV_ATTR_##name])
#define text_of(answer, name) nla_get_string((answer)->attr[RDMA_NLDEV_ATTR_##name])
#define has(answer, name) ((answer)->attr[RDMA_NLDEV_ATTR_##name] != NULL)

#endif
