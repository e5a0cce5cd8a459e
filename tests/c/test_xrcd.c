/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Domains of extended reliable connections (IBTA vol. 1, annex A14), and who gets into them. */
#include <fcntl.h>
#include <sys/eventfd.h>

#include "core/device.h"
#include "recv/xrc.h"
#include "xrc.h"

#define CREATE SIMHCA_XRCD_CREATE
#define EXCLUSIVE SIMHCA_XRCD_EXCLUSIVE

static void a_file_names_a_domain(void **state)
{
	struct client *one = client_new(*state, 0), *two = client_new(*state, 0);
	struct client *elsewhere = client_new(*state, 1);
	int file = xrcd_file(), other = xrcd_file();
	uint32_t a, b, c, d;

	assert_int_equal(-ENOENT, xrcd_try(one, file, 0, &a));
	assert_int_equal(-ENOENT, xrcd_try(one, file, EXCLUSIVE, &a));
	assert_int_equal(0, xrcd_try(one, file, CREATE | EXCLUSIVE, &a));
	assert_int_equal(-EINVAL, xrcd_try(two, file, CREATE | EXCLUSIVE, &b));
	assert_int_equal(-EINVAL, xrcd_try(two, file, EXCLUSIVE, &b));
	assert_int_equal(0, xrcd_try(two, file, 0, &b));
	assert_int_equal(0, xrcd_try(two, file, CREATE, &c));
	assert_int_equal(0, xrcd_try(two, other, CREATE | EXCLUSIVE, &d));
	/* Another device has domains of its own. */
	assert_int_equal(-ENOENT, xrcd_try(elsewhere, file, 0, &d));
	/* It lives as long as anybody has it open, and no longer. */
	assert_int_equal(0, xrcd_close(one, a));
	assert_int_equal(-ENOENT, xrcd_close(one, a));
	assert_int_equal(0, xrcd_close(two, b));
	assert_int_equal(0, xrcd_try(one, file, 0, &a));
	assert_int_equal(0, xrcd_close(one, a));
	client_gone(two);
	assert_int_equal(-ENOENT, xrcd_try(one, file, 0, &a));
	assert_int_equal(-EINVAL, xrcd_try(one, file, CREATE | 1u << 5, &a));
	close(file);
	close(other);
}

/* The file is held, so no later one can have its inode number and get into the domain by it. */
static void the_file_is_held(void **state)
{
	struct client *client = client_new(*state, 0);
	char path[] = "/tmp/simhca-test-xrc-XXXXXX";
	uint32_t domain, other;
	int file = mkstemp(path);

	assert_true(file >= 0);
	domain = xrcd_open(client, file);
	for (int i = 0; i < 50; i++) {
		assert_int_equal(0, unlink(path));
		close(file);
		file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		assert_true(file >= 0);
		assert_int_equal(-ENOENT, xrcd_try(client, file, 0, &other));
	}
	assert_int_equal(0, unlink(path));
	close(file);
	assert_int_equal(0, xrcd_close(client, domain));
}

static void a_domain_without_a_file_is_nobody_elses(void **state)
{
	struct client *client = client_new(*state, 0);
	uint32_t one = xrcd_open(client, -1), two = xrcd_open(client, -1);
	struct qp *target = target_new(client, one), *opened;

	assert_int_equal(-EINVAL, target_try(client, two, target->qpn, &opened));
	assert_int_equal(0, target_close(target));
	assert_int_equal(0, xrcd_close(client, one));
	assert_int_equal(0, xrcd_close(client, two));
}

/* All eventfds are one inode: whoever has any could open everybody's domain. */
static void a_file_without_an_inode_of_its_own_is_refused(void **state)
{
	struct client *client = client_new(*state, 0);
	int event = eventfd(0, EFD_CLOEXEC);
	const struct simhca_open_xrcd_req lies = { .has_fd = 1, .flags = CREATE };
	struct simhca_handle reply;
	uint32_t handle;

	assert_int_equal(-EINVAL, xrcd_try(client, event, CREATE, &handle));
	close(event);
	assert_int_equal(-EINVAL, simhca_open_xrcd(client->context, &lies, -1, &reply, NULL));
}

static void a_domain_in_use_is_not_closed(void **state)
{
	struct client *one = client_new(*state, 0), *two = client_new(*state, 0);
	int file = xrcd_file();
	uint32_t a = xrcd_open(one, file), b = xrcd_open(two, file), again = xrcd_open(one, file);
	struct cq *cq = cq_new(one, 4);
	struct srq *srq = xrc_srq_new(one, a, cq, 4);
	struct qp *target = target_new(one, a);
	struct qp *opened = target_open(two, b, target->qpn);

	close(file);
	assert_int_equal(-EBUSY, xrcd_close(one, a));
	assert_int_equal(-EBUSY, xrcd_close(two, b));
	assert_int_equal(0, xrcd_close(one, again)); /* nothing was made through that one */
	assert_int_equal(-EBUSY, simhca_destroy_cq(one->context, cq->handle, NULL));
	assert_int_equal(0, target_close(target));
	assert_int_equal(-EBUSY, xrcd_close(one, a));
	assert_int_equal(0, patiently(simhca_destroy_srq(one->context, srq->handle, NULL)));
	assert_int_equal(0, simhca_destroy_cq(one->context, cq->handle, NULL));
	assert_int_equal(0, xrcd_close(one, a));
	assert_int_equal(0, target_close(opened));
	assert_int_equal(0, xrcd_close(two, b));
}

/* They begin anew after the last one. */
static void a_number_in_use_is_not_given_again(void **state)
{
	struct client *client = client_new(*state, 0);
	struct simhca_numbers *numbers = &client->context->device->xrcdns;
	const struct simhca_xrcd *xrcds;
	int file = xrcd_file();

	xrcd_open(client, file);
	numbers->next = 1;
	close(file);
	file = xrcd_file();
	xrcd_open(client, file);
	close(file);
	xrcds = client->context->device->xrcds;
	assert_int_equal(xrcds->number, 2);
	assert_int_equal(xrcds->next->number, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ETHERNET(a_file_names_a_domain),
		ON_ETHERNET(the_file_is_held),
		ON_ETHERNET(a_domain_without_a_file_is_nobody_elses),
		ON_ETHERNET(a_file_without_an_inode_of_its_own_is_refused),
		ON_ETHERNET(a_domain_in_use_is_not_closed),
		ON_ETHERNET(a_number_in_use_is_not_given_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
