# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Completion queues: how large, what resizing keeps, what happens to one that is full."""
import errno
import time

import pytest
import verbs_enums as e
from pyverbs.addr import AH
from pyverbs.cq import CQ

from harness import RC, SEND, UD, connect, poll, poll_error, poll_nothing, poll_ok, refused


def test_sizes(ctx):
    """From one entry to the limit; the queue holds at least what was asked for."""
    limit = ctx.query_device().max_cqe
    for cqe in (1, 2, 3, 1000, 65536, limit):
        cq = CQ(ctx, cqe)
        assert cq.cqe >= cqe
        cq.close()


@pytest.mark.parametrize('excess', [-2, -1, 0, None])
def test_bad_size(ctx, excess):
    """No entry, a negative number, one more than the limit."""
    with refused(errno.EINVAL):
        CQ(ctx, ctx.query_device().max_cqe + 1 if excess is None else excess)


def test_comp_vectors(ctx):
    """There are several completion vectors, numbered from 0."""
    assert ctx.num_comp_vectors >= 2
    for vector in range(ctx.num_comp_vectors):
        CQ(ctx, 10, comp_vector=vector).close()
    for vector in (ctx.num_comp_vectors, -1):
        with refused(errno.EINVAL):
            CQ(ctx, 10, comp_vector=vector)


def test_order_and_fields(pair):
    """Completions of a queue come in the order of posting, each with its own wr_id."""
    client, server = pair()
    for number in range(40):
        server.recv(server.region.sge(100 * number, 100), wr_id=(1 << 63) + number)
    for number in range(40):
        client.send(SEND, client.region.sge(0, number), wr_id=(1 << 64) - 1 - number)
    sent, received = poll_ok(client.scq, 40), poll_ok(server.rcq, 40)
    for number in range(40):
        assert sent[number].wr_id == (1 << 64) - 1 - number
        assert sent[number].opcode == e.IBV_WC_SEND
        assert sent[number].qp_num == client.qp.qp_num
        assert received[number].wr_id == (1 << 63) + number
        assert received[number].opcode == e.IBV_WC_RECV
        assert received[number].byte_len == number
        assert received[number].qp_num == server.qp.qp_num
        assert not received[number].wc_flags


def test_one_cq_for_all(pair, side, ctx, keep):
    """Send and receive queues of several QPs share a CQ; the completions say whose they are."""
    client = side()
    shared = CQ(client.ctx, 100)
    ends = [side(device=client.device, pd=client.pd, scq=shared, rcq=shared) for _ in range(4)]
    for number, end in enumerate(ends):
        peer = ends[number ^ 1]
        end.to_init()
        end.to_rtr(peer)
        end.to_rts()
    for end in ends:
        end.recv(wr_id=1)
    for end in ends:
        end.send(SEND, end.region.sge(0, 4), wr_id=2)
    found = poll_ok(shared, 8)
    for end in ends:
        own = sorted(wc.wr_id for wc in found if wc.qp_num == end.qp.qp_num)
        assert own == [1, 2]
    for end in ends:
        end.close()
    shared.close()


def _fill(side, cqes):
    """Completions in the send CQ of a UD side, which nobody takes."""
    ah = _ah(side)
    for number in range(cqes):
        side.send(SEND, side.region.sge(0, 1), wr_id=number, ud=ah)
    return ah


def _ah(side):
    return AH(side.pd, attr=side.device.address()), side.qp.qp_num, 1  # a wrong Q_Key: dropped


@pytest.mark.parametrize('before, after, filled', [(8, 100, 8), (100, 10, 10), (7, 7, 5),
                                                   (16, 5000, 11), (5000, 16, 16)])
def test_resize_keeps_entries(side, before, after, filled):
    """Larger or smaller: the completions that wait stay, in order, and new ones follow."""
    one = side(UD, cqe=before)
    one.start()
    ah = _fill(one, filled)
    settle()
    one.scq.resize(after)
    assert one.scq.cqe >= after
    assert [wc.wr_id for wc in poll_ok(one.scq, filled)] == list(range(filled))
    for number in range(2 * after if after < 100 else 50):
        one.send(SEND, one.region.sge(0, 1), wr_id=1000 + number, ud=ah)
        assert poll_ok(one.scq).wr_id == 1000 + number


def settle():
    """Gives the device time to write completions that nobody takes."""
    time.sleep(0.05)


def test_resize_in_the_middle(side):
    """Resizing when the indices are past several rounds of the ring."""
    one = side(UD, cqe=4)
    one.start()
    ah = _ah(one)
    number = 0
    for size in (4, 9, 3, 64, 5, 4, 1000, 3):
        for _ in range(11):
            one.send(SEND, one.region.sge(0, 1), wr_id=number, ud=ah)
            assert poll_ok(one.scq).wr_id == number
            number += 1
        for extra in range(3):
            one.send(SEND, one.region.sge(0, 1), wr_id=number + extra, ud=ah)
        settle()
        one.scq.resize(size)
        assert [wc.wr_id for wc in poll_ok(one.scq, 3)] == [number, number + 1, number + 2]
        number += 3


def test_resize_too_small(side):
    """Not to less than what waits; the queue stays as it was."""
    one = side(UD, cqe=20)
    one.start()
    _fill(one, 10)
    size = one.scq.cqe
    for bad in (9, 1, 0, -1, one.ctx.query_device().max_cqe + 1):
        with refused(errno.EINVAL):
            one.scq.resize(bad)
        assert one.scq.cqe == size
    assert [wc.wr_id for wc in poll_ok(one.scq, 10)] == list(range(10))


def test_resize_below_what_is_to_come(pair):
    """Sends that have not completed yet will need their entries: not to fewer than those."""
    client, server = pair(cqe=20)
    for number in range(10):
        client.send(SEND, client.region.sge(0, 1), wr_id=number)  # no receive is there
    with refused(errno.EINVAL):
        client.scq.resize(9)
    client.scq.resize(10)
    for _ in range(10):
        server.recv()
    assert [wc.wr_id for wc in poll_ok(client.scq, 10)] == list(range(10))


def test_resize_below_both(side):
    """What waits in a CQ and what is still to come need entries together."""
    home, server = side(), side()
    one = CQ(home.ctx, 20)
    client = side(device=home.device, pd=home.pd, scq=one, rcq=one)
    connect(client, server)
    for number in range(5):
        client.recv(wr_id=number)
        server.send(SEND, server.region.sge(0, 1))
    poll_ok(server.scq, 5)
    for number in range(5, 10):
        client.send(SEND, client.region.sge(0, 1), wr_id=number)  # no receive is there
    with refused(errno.EINVAL):
        one.resize(9)
    one.resize(10)
    for _ in range(5):
        server.recv()
    assert [wc.wr_id for wc in poll_ok(one, 10)] == list(range(10))


def test_full_is_not_overrun(side):
    """As many completions as the queue has entries are no error."""
    one = side(UD, cqe=10)
    one.start()
    _fill(one, one.scq.cqe)
    one.device.no_event(0.1)
    poll_ok(one.scq, one.scq.cqe)
    assert one.state() == e.IBV_QPS_RTS


def test_overrun(side):
    """One completion too many: IBV_EVENT_CQ_ERR, and the QPs of this CQ go to ERR."""
    one = side(UD, cqe=10)
    other = side(UD, device=one.device, pd=one.pd)
    one.start()
    other.start()
    _fill(one, one.scq.cqe + 1)
    assert one.device.event() == e.IBV_EVENT_CQ_ERR
    assert one.state() == e.IBV_QPS_ERR
    assert other.state() == e.IBV_QPS_RTS
    other.send(SEND, other.region.sge(0, 1), ud=_ah(other))
    poll_ok(other.scq)


def test_destroyed_qp_leaves_no_completions(pair, keep, side):
    """Completions of a QP that was destroyed, and were not taken, are gone."""
    client = side(RC)
    survivor = side(UD, device=client.device, pd=client.pd, scq=client.scq, rcq=client.rcq)
    server = side(RC)
    connect(client, server)
    survivor.start()
    for number in range(10):
        server.recv()
        client.send(SEND, client.region.sge(0, 1), wr_id=number)
    poll_ok(server.rcq, 10)
    survivor.send(SEND, survivor.region.sge(0, 1), wr_id=77, ud=_ah(survivor))
    settle()
    client.qp.close()
    assert poll_ok(client.scq).wr_id == 77
    poll_nothing(client.scq)


def test_error_completion_fields(pair):
    """Of a completion in error wr_id, status, vendor_err and qp_num are good."""
    client, _ = pair(client_has={'rnr_retry': 0})
    client.send(SEND, client.region.sge(0, 1), wr_id=1234)
    client.send(SEND, client.region.sge(0, 1), wr_id=1235)
    wc = poll_error(client.scq, e.IBV_WC_RNR_RETRY_EXC_ERR, 'PEER_NOT_READY')
    assert (wc.wr_id, wc.qp_num) == (1234, client.qp.qp_num)
    wc = poll(client.scq)[0]
    assert (wc.wr_id, wc.qp_num, wc.status) == (1235, client.qp.qp_num, e.IBV_WC_WR_FLUSH_ERR)
