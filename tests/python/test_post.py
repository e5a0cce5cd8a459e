# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Posting: what is refused at once, how many fit, and what a failed list leaves behind."""
import ctypes
import errno

import pytest
import verbs_enums as e
from pyverbs.addr import AH
from pyverbs.wr import SGE, RecvWR, SendWR

from harness import (APIS, FETCH_ADD, RC, READ, SEND, SIGNALED, UC, UD, WRITE,
                     connect, pattern, poll_nothing, poll_ok, refused)

INLINE = SIGNALED | e.IBV_SEND_INLINE


@pytest.fixture(params=APIS)
def api(request):
    return request.param


def test_send_before_rts(side, api):
    """Nothing can be sent in RESET, INIT and RTR."""
    one = side(ex=api == 'wr')
    advance = [lambda: None, one.to_init, lambda: one.to_rtr(one), one.to_rts]
    for number, go_on in enumerate(advance):
        go_on()
        if number < 3:
            with refused(errno.EINVAL):
                one.send(SEND, one.region.sge(0, 8), api=api)
    one.recv()
    one.send(SEND, one.region.sge(0, 8), api=api)
    poll_ok(one.scq)


def test_receive_in_reset(side):
    """No receive can be posted in RESET; from INIT on it can."""
    one = side()
    with refused(errno.EINVAL):
        one.recv()
    one.to_init()
    one.recv()
    one.to(e.IBV_QPS_RESET)
    with refused(errno.EINVAL):
        one.recv()


def test_full_receive_queue(side):
    """As many receives as were granted, and not one more."""
    one = side(recv_wr=10)
    one.to_init()
    depth = one.qp.query(e.IBV_QP_CAP)[0].cap.max_recv_wr
    for _ in range(depth):
        one.recv()
    with refused(errno.ENOMEM):
        one.recv()


@pytest.mark.parametrize('depth', [1, 3, 10])
def test_full_send_queue(pair, api, depth):
    """As many sends as were granted; a slot is free as soon as its completion was polled."""
    client, server = pair(send_wr=depth, ex=api == 'wr')
    for turn in range(5):
        for number in range(client.cap.max_send_wr):
            client.send(SEND, client.region.sge(0, 8), wr_id=number, api=api)
        with refused(errno.ENOMEM):
            client.send(SEND, client.region.sge(0, 8), api=api)
        for _ in range(client.cap.max_send_wr):
            server.recv()
        poll_ok(client.scq)
        client.send(SEND, client.region.sge(0, 8), wr_id=99, api=api)
        with refused(errno.ENOMEM):
            client.send(SEND, client.region.sge(0, 8), api=api)
        server.recv()
        found = poll_ok(client.scq, client.cap.max_send_wr)
        assert (found[-1] if depth > 1 else found).wr_id == 99
        for _ in range(client.cap.max_send_wr + 1):
            poll_ok(server.rcq)


def test_unsignaled_slots(pair, api):
    """An unsignaled work request's slot comes back with the next completion after it."""
    client, server = pair(send_wr=4, ex=api == 'wr')
    for turn in range(200):
        for number in range(4):
            client.send(WRITE, client.region.sge(0, 4), to=server.region.at(4 * number),
                        wr_id=number, api=api, flags=SIGNALED if number == 3 else 0)
        if turn < 3:
            with refused(errno.ENOMEM):
                client.send(WRITE, client.region.sge(0, 4), to=server.region.at(), api=api)
        assert poll_ok(client.scq).wr_id == 3
    poll_nothing(client.scq)


def test_unsignaled_only(pair):
    """Unsignaled successes give no completions, and so no slots back."""
    client, server = pair(send_wr=4)
    client.region.write(pattern(4))
    for number in range(4):
        client.send(WRITE, client.region.sge(0, 4), to=server.region.at(4 * number), flags=0)
    poll_nothing(client.scq)
    assert server.region.read(16) == 4 * pattern(4)
    with refused(errno.ENOMEM):
        client.send(WRITE, client.region.sge(0, 4), to=server.region.at())


def test_sq_sig_all(pair):
    """With sq_sig_all every send completes, flag or not."""
    client, server = pair(sig_all=1)
    for number in range(5):
        client.send(WRITE, client.region.sge(0, 4), to=server.region.at(), wr_id=number, flags=0)
    assert [wc.wr_id for wc in poll_ok(client.scq, 5)] == list(range(5))


def test_too_many_sges(pair, api):
    """One SGE more than was granted, in either queue."""
    client, server = pair(send_sge=3, recv_sge=5, ex=api == 'wr')
    most = client.cap.max_send_sge
    with refused(errno.ENOMEM):
        client.send(SEND, *[client.region.sge(0, 1)] * (most + 1), api=api)
    most_recv = server.cap.max_recv_sge
    with refused(errno.EINVAL):
        server.recv(*[server.region.sge(0, 1)] * (most_recv + 1))
    server.recv(*[server.region.sge(i, 1) for i in range(most_recv)])
    client.send(SEND, *[client.region.sge(i, 1) for i in range(most)], api=api)
    poll_ok(client.scq)
    assert poll_ok(server.rcq).byte_len == most


def test_inline_too_long(pair, api):
    """Inline data up to what was granted, in one piece or several."""
    client, server = pair(inline=100, ex=api == 'wr')
    most = client.cap.max_inline_data
    for _ in range(2):
        server.recv()
    for sges in ([(0, most + 1)], [(0, most), (0, 1)]):
        with refused(errno.ENOMEM):
            client.send(SEND, *[client.region.sge(*sge) for sge in sges], flags=INLINE, api=api)
    for sges in ([(0, most)], [(0, most - 1), (0, 1)]):
        client.send(SEND, *[client.region.sge(*sge) for sge in sges], flags=INLINE, api=api)
        poll_ok(client.scq)
        assert poll_ok(server.rcq).byte_len == most


def test_inline_of_a_read(pair, api):
    """Only what sends data has them inline; refused when it is posted, not by a completion."""
    client, server = pair(inline=100, ex=api == 'wr')
    with refused(errno.EINVAL):
        client.send(READ, client.region.sge(0, 8), to=server.region.at(), flags=INLINE, api=api)
    client.send(READ, client.region.sge(0, 8), to=server.region.at(), api=api)
    poll_ok(client.scq)


@pytest.mark.parametrize('qp_type, opcode', [
    (UD, WRITE), (UD, READ), (UD, FETCH_ADD), (UC, READ), (UC, FETCH_ADD),
    (RC, e.IBV_WR_TSO), (RC, 100)])
def test_wrong_operation(side, qp_type, opcode):
    """An operation that the QP's type does not have is refused when it is posted."""
    one, other = side(qp_type), side(qp_type)
    connect(one, other)
    ud = (AH(one.pd, attr=one.device.address()), 1, 1) if qp_type == UD else None
    with refused(errno.EINVAL):
        one.send(opcode, one.region.sge(0, 8), to=other.region.at() if not ud else None, ud=ud) \
            if opcode != FETCH_ADD else one.send(opcode, one.region.sge(0, 8),
                                                 to=other.region.at())


def test_list(pair):
    """A list of work requests is posted in its order."""
    client, server = pair()
    client.region.write(pattern(100))
    following = None
    for number in reversed(range(10)):
        wr = SendWR(number, WRITE, 1, 0, [client.region.sge(10 * number, 10)], SIGNALED, following)
        wr.set_wr_rdma(server.region.rkey, server.region.addr + 10 * number)
        following = (wr, following)[0]
        _keep(client, wr)
    client.qp.post_send(following)
    assert [wc.wr_id for wc in poll_ok(client.scq, 10)] == list(range(10))
    assert server.region.read(100) == pattern(100)


def _keep(side, thing):
    """pyverbs' work requests do not hold the next one."""
    side.regions.append(type('Held', (), {'thing': thing, 'close': lambda self: None})())


def _never_freed(bad):
    """
    What is told of as the bad one becomes a copy of it: pyverbs of rdma-core 65 frees the list of
    SGEs, which is the same, with each of them.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(bad))
    return bad


def test_list_with_a_bad_one(pair):
    """Those before the bad one are posted, it is named, those behind it are not posted."""
    client, server = pair(send_sge=2)
    following = None
    for number in reversed(range(6)):
        sges = 3 if number == 3 else 1
        wr = SendWR(number, WRITE, sges, 0, [client.region.sge(0, 8)] * sges, SIGNALED, following)
        wr.set_wr_rdma(server.region.rkey, server.region.addr)
        _keep(client, wr)
        following = wr
    bad = _never_freed(SendWR(77, SEND, 1, 0, [SGE(0, 0, 0)]))
    with refused(errno.ENOMEM):
        client.qp.post_send(following, bad)
    assert bad.wr_id == 3
    assert [wc.wr_id for wc in poll_ok(client.scq, 3)] == [0, 1, 2]
    poll_nothing(client.scq)


def test_receive_list_with_a_bad_one(pair):
    """The same for receives."""
    client, server = pair(recv_sge=2)
    following = None
    for number in reversed(range(4)):
        sges = 3 if number == 2 else 1
        wr = RecvWR(number, sges, [server.region.sge(0, 8)] * sges, following)
        _keep(server, wr)
        following = wr
    bad = _never_freed(RecvWR(77, 1, [SGE(0, 0, 0)]))
    with refused(errno.EINVAL):
        server.qp.post_recv(following, bad)
    assert bad.wr_id == 2
    for _ in range(2):
        client.send(SEND, client.region.sge(0, 8))
    poll_ok(client.scq, 2)
    assert [wc.wr_id for wc in poll_ok(server.rcq, 2)] == [0, 1]


def test_batch(pair):
    """Several work requests between ibv_wr_start and ibv_wr_complete, with what each has set."""
    client, server = pair(ex=True)
    client.region.write(pattern(64))
    qp = client.qp
    qp.wr_start()
    for number in range(8):
        qp.wr_id, qp.wr_flags = number, SIGNALED if number % 2 else 0
        qp.wr_rdma_write(server.region.rkey, server.region.addr + 8 * number)
        qp.wr_set_sge(client.region.sge(8 * number, 8))
    qp.wr_complete()
    assert [wc.wr_id for wc in poll_ok(client.scq, 4)] == [1, 3, 5, 7]
    assert server.region.read(64) == pattern(64)
    poll_nothing(client.scq)


def test_batch_is_all_or_nothing(pair):
    """One bad work request in a batch: none of it is posted."""
    client, server = pair(ex=True, send_sge=2)
    qp = client.qp
    for bad in (0, 3, 7):
        qp.wr_start()
        for number in range(8):
            qp.wr_id, qp.wr_flags = number, SIGNALED
            qp.wr_rdma_write(server.region.rkey, server.region.addr)
            qp.wr_set_sge_list(3 if number == bad else 1, [client.region.sge(0, 8)] * 3)
        with refused(errno.ENOMEM):
            qp.wr_complete()
    poll_nothing(client.scq)
    assert server.region.read(8) == bytes(8)
    client.send(WRITE, client.region.sge(0, 8), to=server.region.at(), api='wr', wr_id=5)
    assert poll_ok(client.scq).wr_id == 5


def test_batch_too_long(pair):
    """A batch that does not fit is refused as a whole, with ENOMEM."""
    client, server = pair(ex=True, send_wr=4)
    qp = client.qp
    qp.wr_start()
    for number in range(client.cap.max_send_wr + 1):
        qp.wr_id, qp.wr_flags = number, SIGNALED
        qp.wr_rdma_write(server.region.rkey, server.region.addr)
        qp.wr_set_sge(client.region.sge(0, 8))
    with refused(errno.ENOMEM):
        qp.wr_complete()
    poll_nothing(client.scq)


def test_abort(pair):
    """ibv_wr_abort takes all of it back."""
    client, server = pair(ex=True, send_wr=4)
    client.region.write(pattern(8))
    for _ in range(20):
        client.qp.wr_start()
        client.qp.wr_id, client.qp.wr_flags = 1, SIGNALED
        client.qp.wr_rdma_write(server.region.rkey, server.region.addr)
        client.qp.wr_set_sge(client.region.sge(0, 8))
        client.qp.wr_abort()
    poll_nothing(client.scq)
    assert server.region.read(8) == bytes(8)
    client.send(WRITE, client.region.sge(0, 8), to=server.region.at(), api='wr')
    poll_ok(client.scq)


def test_both_interfaces_on_one_queue(pair):
    """ibv_post_send works on an extended QP too, in the same order."""
    client, server = pair(ex=True)
    for number in range(30):
        client.send(WRITE, client.region.sge(0, 8), to=server.region.at(), wr_id=number,
                    api=APIS[number % 2])
    assert [wc.wr_id for wc in poll_ok(client.scq, 30)] == list(range(30))


def test_deep_queues(pair):
    """Queues of the greatest depth, filled and emptied around their end."""
    depth = 16384
    client, server = pair(send_wr=depth, recv_wr=depth, cqe=2 * depth, send_sge=1, recv_sge=1)
    for turn in range(2):
        for number in range(depth):
            server.recv(server.region.sge(0, 8), wr_id=number)
        for number in range(depth):
            client.send(SEND, client.region.sge(0, 8), wr_id=number,
                        flags=SIGNALED if number == depth - 1 else 0)
        assert poll_ok(client.scq).wr_id == depth - 1
        assert [wc.wr_id for wc in poll_ok(server.rcq, depth)] == list(range(depth))


