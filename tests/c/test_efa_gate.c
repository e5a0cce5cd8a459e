/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What the gate of EFA's rings lets through, and what not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "efa/gate.h"

#define WHOLE (EFA_WQE_FIRST | EFA_WQE_LAST)

static const struct efa_limits srd = { .reads = true,
				       .writes = true,
				       .max_message = 8928,
				       .max_rdma = 1 << 30 },
			       ud = { .max_message = 8928 };

static enum efa_status judge(const struct efa_send_wqe *wqe, const struct efa_limits *limits)
{
	struct efa_send send;

	return efa_judge_send(wqe, limits, &send);
}

static void test_send(void **state)
{
	struct efa_send_wqe wqe = { .control = WHOLE | EFA_SEND, .length = 2 };
	struct efa_send send;

	wqe.buffer[0] = (struct efa_buffer){ .length = 8000, .key = 0xff123456, .addr_high = 1 };
	wqe.buffer[1] = (struct efa_buffer){ .length = 928 };
	assert_int_equal(efa_judge_send(&wqe, &srd, &send), EFA_STATUS_OK);
	assert_int_equal(send.length, 8928);
	assert_int_equal(send.sge[0].lkey, 0x123456);
	assert_int_equal(send.sge[0].addr, UINT64_C(1) << 32);
	wqe.buffer[1].length++;
	assert_int_equal(judge(&wqe, &srd), EFA_STATUS_LOCAL_LENGTH);
	wqe.buffer[0].length = wqe.buffer[1].length = UINT32_MAX;
	assert_int_equal(judge(&wqe, &srd), EFA_STATUS_LOCAL_LENGTH);
	wqe.length = 3;
	assert_int_equal(judge(&wqe, &srd), EFA_STATUS_LOCAL_LENGTH);
	wqe.control |= EFA_WQE_INLINE;
	assert_int_equal(judge(&wqe, &srd), EFA_STATUS_OK);
	wqe.length = EFA_INLINE + 1;
	assert_int_equal(judge(&wqe, &srd), EFA_STATUS_LOCAL_LENGTH);
	wqe.control &= (uint16_t)~EFA_WQE_LAST;
	assert_int_equal(judge(&wqe, &srd), EFA_STATUS_INVALID_OP);
}

/* In a wide WQE there is room for more, also of a write, and of nothing else. */
static void test_inline(void **state)
{
	const struct efa_limits wide = {
		.reads = true, .writes = true, .wide = true, .max_message = 8928, .max_rdma = 1000
	};
	struct efa_wide_wqe whole = { .wqe = { .control = WHOLE | EFA_SEND | EFA_WQE_INLINE } };
	struct efa_send_wqe *wqe = &whole.wqe;
	uint8_t *bytes = (uint8_t *)&whole;
	struct efa_send send;

	for (uint32_t i = 32; i < sizeof(whole); i++)
		bytes[i] = (uint8_t)i;
	wqe->length = EFA_INLINE_WIDE;
	assert_int_equal(efa_judge_send(wqe, &wide, &send), EFA_STATUS_OK);
	assert_memory_equal(send.data, bytes + 32, EFA_INLINE_WIDE);
	assert_int_equal(send.length, EFA_INLINE_WIDE);
	wqe->length++;
	assert_int_equal(judge(wqe, &wide), EFA_STATUS_LOCAL_LENGTH);
	wqe->control = WHOLE | EFA_RDMA_WRITE | EFA_WQE_INLINE;
	wqe->rdma.remote.length = wqe->length;
	assert_int_equal(judge(wqe, &wide), EFA_STATUS_LOCAL_LENGTH);
	wqe->length = EFA_INLINE_WIDE;
	assert_int_equal(judge(wqe, &wide), EFA_STATUS_LOCAL_LENGTH); /* not what is written */
	wqe->rdma.remote.length = wqe->length;
	assert_int_equal(efa_judge_send(wqe, &wide, &send), EFA_STATUS_OK);
	assert_memory_equal(send.data, bytes + 48, EFA_INLINE_WIDE);
	assert_int_equal(judge(wqe, &srd), EFA_STATUS_INVALID_OP);
	wqe->control = WHOLE | EFA_RDMA_READ | EFA_WQE_INLINE;
	assert_int_equal(judge(wqe, &wide), EFA_STATUS_INVALID_OP);
}

static void test_read(void **state)
{
	struct efa_send_wqe wqe = { .control = WHOLE | EFA_RDMA_READ, .length = 1 };

	wqe.rdma.local.length = wqe.rdma.remote.length = 1 << 30;
	assert_int_equal(judge(&wqe, &srd), EFA_STATUS_OK);
	assert_int_equal(judge(&wqe, &ud), EFA_STATUS_INVALID_OP);
	wqe.rdma.local.length--;
	assert_int_equal(judge(&wqe, &srd), EFA_STATUS_LOCAL_LENGTH);
	wqe.rdma.local.length = wqe.rdma.remote.length = (1 << 30) + 1;
	assert_int_equal(judge(&wqe, &srd), EFA_STATUS_LOCAL_LENGTH);
	wqe.control |= EFA_WQE_INLINE;
	assert_int_equal(judge(&wqe, &srd), EFA_STATUS_INVALID_OP);
	wqe.control = WHOLE | EFA_RDMA_READ | EFA_WQE_HAS_IMM;
	assert_int_equal(judge(&wqe, &srd), EFA_STATUS_INVALID_OP);
	wqe.control = WHOLE | 3;
	assert_int_equal(judge(&wqe, &srd), EFA_STATUS_INVALID_OP);
}

static void test_write(void **state)
{
	const struct efa_limits reads_only = { .reads = true, .max_rdma = 1 << 30 };
	struct efa_send_wqe wqe = { .control = WHOLE | EFA_RDMA_WRITE, .length = 1, .imm = 9 };
	struct efa_send send;

	wqe.rdma.local.length = wqe.rdma.remote.length = 1 << 30;
	wqe.rdma.remote.key = 0xff123456;
	wqe.rdma.remote.addr_high = 2;
	assert_int_equal(efa_judge_send(&wqe, &srd, &send), EFA_STATUS_OK);
	assert_false(send.has_imm);
	assert_int_equal(send.length, 1 << 30);
	assert_int_equal(send.rkey, 0xff123456);
	assert_int_equal(send.remote_addr, UINT64_C(2) << 32);
	assert_int_equal(judge(&wqe, &ud), EFA_STATUS_INVALID_OP);
	assert_int_equal(judge(&wqe, &reads_only), EFA_STATUS_INVALID_OP);
	wqe.control |= EFA_WQE_HAS_IMM;
	assert_int_equal(efa_judge_send(&wqe, &srd, &send), EFA_STATUS_OK);
	assert_true(send.has_imm);
	assert_int_equal(send.imm, 9);
	/* What has no buffer writes nothing, whatever it says of its length. */
	wqe.length = 0;
	assert_int_equal(efa_judge_send(&wqe, &srd, &send), EFA_STATUS_OK);
	assert_int_equal(send.length, 0);
	wqe.length = 2;
	assert_int_equal(judge(&wqe, &srd), EFA_STATUS_LOCAL_LENGTH);
	wqe.length = 1;
	wqe.rdma.local.length--;
	assert_int_equal(judge(&wqe, &srd), EFA_STATUS_LOCAL_LENGTH);
	wqe.rdma.local.length = wqe.rdma.remote.length = (1 << 30) + 1;
	assert_int_equal(judge(&wqe, &srd), EFA_STATUS_LOCAL_LENGTH);
	/* There is no room for inline data behind the remote address. */
	wqe.rdma.local.length = wqe.rdma.remote.length = 1;
	wqe.control |= EFA_WQE_INLINE;
	assert_int_equal(judge(&wqe, &srd), EFA_STATUS_INVALID_OP);
}

static void test_recv(void **state)
{
	_Alignas(8) struct efa_recv_desc ring[4] = {
		[3] = { .length = 5, .req_id = 7, .key_flags = EFA_RECV_FIRST | 0x10 },
		[0] = { .length = 6, .key_flags = EFA_RECV_LAST | 0x11 },
	};
	struct efa_recv recv;

	/* It goes on at the ring's beginning. */
	assert_int_equal(efa_judge_recv(ring, 4, 3, 2, &recv), 2);
	assert_int_equal(recv.req_id, 7);
	assert_int_equal(recv.length, 11);
	assert_int_equal(recv.sge[1].lkey, 0x11);
	/* Its end is not posted yet; it has none; it begins twice; it does not begin. */
	assert_int_equal(efa_judge_recv(ring, 4, 3, 1, &recv), 0);
	ring[0].key_flags = 0;
	assert_int_equal(efa_judge_recv(ring, 4, 3, 4, &recv), 0);
	ring[0].key_flags = EFA_RECV_FIRST | EFA_RECV_LAST;
	assert_int_equal(efa_judge_recv(ring, 4, 3, 2, &recv), 0);
	assert_int_equal(efa_judge_recv(ring, 4, 1, 4, &recv), 0);
	/* It has four; it does not end by then. */
	for (int i = 0; i < 4; i++)
		ring[i] =
			(struct efa_recv_desc){ .length = 1, .key_flags = i ? 0 : EFA_RECV_FIRST };
	assert_int_equal(efa_judge_recv(ring, 4, 0, 4, &recv), 0);
	ring[3].key_flags = EFA_RECV_LAST;
	assert_int_equal(efa_judge_recv(ring, 4, 0, 4, &recv), 4);
	assert_int_equal(recv.length, 4);
}

static void test_doorbell(void **state)
{
	_Atomic uint32_t doorbell = 0x10003;
	uint32_t posted;

	assert_true(efa_posted(&doorbell, 0xfffe, 8, &posted));
	assert_int_equal(posted, 5);
	assert_false(efa_posted(&doorbell, 0xfffa, 8, &posted));
	assert_false(efa_posted(&doorbell, 4, 8, &posted));
	/* The largest ring, which is full; a driver that had one more would have posted too much. */
	atomic_store(&doorbell, 0x1fffe + EFA_RING_MOST);
	assert_true(efa_posted(&doorbell, 0xfffe, EFA_RING_MOST, &posted));
	assert_int_equal(posted, EFA_RING_MOST);
	assert_false(efa_posted(&doorbell, 0xfffd, EFA_RING_MOST, &posted));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_inline), cmocka_unit_test(test_send),
		cmocka_unit_test(test_read),   cmocka_unit_test(test_write),
		cmocka_unit_test(test_recv),   cmocka_unit_test(test_doorbell),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
