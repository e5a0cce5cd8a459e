# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Shared receive queues."""
import errno

import pytest
import verbs_enums as e
from pyverbs.addr import AH
from pyverbs.pd import PD
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr, SrqInitAttrEx
from pyverbs.wr import RecvWR

from harness import (FLUSH, GRH_BYTES, QKEY, RC, SEND, UC, UD, WRITE_IMM, Region, connect, pattern,
                     poll, poll_error, poll_nothing, poll_ok, refused)

LIMIT_EVENT = e.IBV_EVENT_SRQ_LIMIT_REACHED
LAST_WQE = e.IBV_EVENT_QP_LAST_WQE_REACHED


class Shared:
    """An SRQ with QPs on it, each connected to a client."""

    def __init__(self, side, count=2, qp_type=RC, max_wr=100, limit=0):
        self.home = side(qp_type)
        self.device, self.pd = self.home.device, self.home.pd
        self.srq = SRQ(self.pd, SrqInitAttr(SrqAttr(max_wr=max_wr, max_sge=2)))
        if limit:
            self.srq.modify(SrqAttr(srq_limit=limit), e.IBV_SRQ_LIMIT)
        self.region = self.home.new_region(1 << 16)
        self.servers = [side(qp_type, device=self.device, pd=self.pd, rcq=self.home.rcq,
                             srq=self.srq) for _ in range(count)]
        self.clients = [side(qp_type) for _ in range(count)]
        for client, server in zip(self.clients, self.servers):
            connect(client, server)

    def recv(self, wr_id, *sges):
        sges = sges or (self.region.sge(64 * (wr_id % 1000), 64),)
        self.srq.post_recv(RecvWR(wr_id, len(sges), list(sges)))

    def send(self, number, length=8, **options):
        self.clients[number].send(SEND, self.clients[number].region.sge(0, length), **options)
        poll_ok(self.clients[number].scq)


@pytest.fixture
def shared(side):
    made = []

    def make(*arguments, **options):
        made.append(Shared(side, *arguments, **options))
        return made[-1]

    yield make
    for one in made:
        for server in one.servers:
            server.qp.close()
        one.srq.close()


def test_sizes(ctx, pd):
    """What was asked for, and the limits."""
    device = ctx.query_device()
    for max_wr, max_sge in ((1, 1), (10, 3), (device.max_srq_wr, device.max_srq_sge)):
        srq = SRQ(pd, SrqInitAttr(SrqAttr(max_wr=max_wr, max_sge=max_sge)))
        attr = srq.query()
        assert attr.max_wr >= max_wr and attr.max_sge >= max_sge and attr.srq_limit == 0
        srq.close()
    for max_wr, max_sge in ((0, 1), (device.max_srq_wr + 1, 1), (10, device.max_srq_sge + 1)):
        with refused(errno.EINVAL):
            SRQ(pd, SrqInitAttr(SrqAttr(max_wr=max_wr, max_sge=max_sge)))


def test_create_ex(ctx, pd):
    """ibv_create_srq_ex with a PD, and its number."""
    attr = SrqInitAttrEx(max_wr=10)
    attr.comp_mask = e.IBV_SRQ_INIT_ATTR_TYPE | e.IBV_SRQ_INIT_ATTR_PD
    attr.srq_type = e.IBV_SRQT_BASIC
    attr.pd = pd
    srq = SRQ(ctx, attr)
    other = SRQ(pd, SrqInitAttr(SrqAttr()))
    assert srq.get_srq_num() != other.get_srq_num()
    assert srq.query().max_wr >= 10
    for one in (srq, other):
        one.close()


def test_is_shared(shared):
    """Receives are used in the order of posting, by whichever QP a message comes to."""
    one = shared(3)
    for number in range(9):
        one.recv(number)
    for number in range(9):
        client = (number * 2) % 3
        one.clients[client].region.write(pattern(40, number))
        one.send(client, 40)
        wc = poll_ok(one.home.rcq)
        assert wc.wr_id == number
        assert wc.qp_num == one.servers[client].qp.qp_num
        assert one.region.read(40, 64 * number) == pattern(40, number)


def test_rnr(shared):
    """An empty SRQ is a receiver that is not ready; a receive that is posted helps."""
    one = shared()
    one.clients[0].send(SEND, one.clients[0].region.sge(0, 8))
    poll_nothing(one.clients[0].scq)
    one.recv(3)
    poll_ok(one.clients[0].scq)
    assert poll_ok(one.home.rcq).wr_id == 3


def test_immediate(shared):
    """RDMA WRITE with immediate takes a receive from the SRQ as well."""
    one = shared()
    one.recv(5)
    client = one.clients[1]
    client.send(WRITE_IMM, client.region.sge(0, 8), to=one.region.at(), imm=7)
    poll_ok(client.scq)
    wc = poll_ok(one.home.rcq)
    assert (wc.wr_id, wc.opcode) == (5, e.IBV_WC_RECV_RDMA_WITH_IMM)


def test_no_receive_on_the_qp(shared):
    """A QP with an SRQ has no receive queue of its own."""
    one = shared()
    with refused(errno.EINVAL):
        one.servers[0].recv()


def test_full(shared):
    """As many receives as were granted; slots come back as completions are polled."""
    one = shared(max_wr=10)
    depth = one.srq.query().max_wr
    for turn in range(3):
        for number in range(depth):
            one.recv(number)
        with refused(errno.ENOMEM):
            one.recv(99)
        for _ in range(depth):
            one.send(turn % 2)
        assert [wc.wr_id for wc in poll_ok(one.home.rcq, depth)] == list(range(depth))


def test_slots_of_a_qp_that_goes(shared):
    """So do those whose completions nobody polls, because their QP is destroyed before."""
    one = shared(max_wr=10)
    depth = one.srq.query().max_wr
    for number in range(depth):
        one.recv(number)
    for _ in range(depth):
        one.send(0)
    with refused(errno.ENOMEM):
        one.recv(99)
    one.servers[0].qp.close()
    for number in range(depth):
        one.recv(number)
    for _ in range(depth):
        one.send(1)
    assert [wc.wr_id for wc in poll_ok(one.home.rcq, depth)] == list(range(depth))


def test_too_many_sges(shared):
    """One SGE more than was granted."""
    one = shared()
    most = one.srq.query().max_sge
    with refused(errno.EINVAL):
        one.recv(1, *[one.region.sge(0, 1)] * (most + 1))
    one.recv(2, *[one.region.sge(number, 1) for number in range(most)])
    one.send(0, most)
    assert poll_ok(one.home.rcq).byte_len == most


def test_resize_below_the_limit(shared):
    """While a limit of more is set; a new limit in the same call does not help."""
    one = shared(max_wr=50, limit=20)
    for attr, mask in ((SrqAttr(max_wr=19), e.IBV_SRQ_MAX_WR),
                       (SrqAttr(max_wr=19, srq_limit=2), e.IBV_SRQ_MAX_WR | e.IBV_SRQ_LIMIT)):
        with refused(errno.EINVAL):
            one.srq.modify(attr, mask)
    assert (one.srq.query().max_wr, one.srq.query().srq_limit) == (50, 20)
    one.srq.modify(SrqAttr(max_wr=20), e.IBV_SRQ_MAX_WR)
    assert one.srq.query().srq_limit == 20


def test_pd_of_the_srq(shared, keep):
    """Its buffers belong to the SRQ's PD, whatever PD the QP has."""
    one = shared()
    other = PD(one.device.ctx)
    foreign = keep(Region(other, 4096))
    one.srq.post_recv(RecvWR(1, 1, [foreign.sge()]))
    one.clients[0].send(SEND, one.clients[0].region.sge(0, 8))
    poll_error(one.home.rcq, e.IBV_WC_LOC_PROT_ERR, 'KEY_WRONG_PD')
    poll_error(one.clients[0].scq, e.IBV_WC_REM_OP_ERR, 'KEY_WRONG_PD')


def test_qp_of_another_pd(side, keep):
    """A QP may have another PD than its SRQ, whose regions then serve the receives."""
    home = side()
    srq = SRQ(home.pd, SrqInitAttr(SrqAttr()))
    server = side(device=home.device, pd=PD(home.ctx), srq=srq)
    client = side()
    connect(client, server)
    client.region.write(pattern(100))
    srq.post_recv(RecvWR(1, 1, [home.region.sge()]))
    client.send(SEND, client.region.sge(0, 100))
    poll_ok(client.scq)
    poll_ok(server.rcq)
    assert home.region.read(100) == pattern(100)
    server.qp.close()
    srq.close()


# ---------------------------------------------------------------------------- limit

def test_limit(shared):
    """One event when fewer than the limit are left, then no more until it is set again."""
    one = shared()
    for number in range(10):
        one.recv(number)
    for _ in range(2):
        one.srq.modify(SrqAttr(srq_limit=7), e.IBV_SRQ_LIMIT)
        assert one.srq.query().srq_limit == 7
        for _ in range(3):  # seven are left: not fewer
            one.send(0)
        one.device.no_event()
        one.send(1)
        assert one.device.event() == LIMIT_EVENT
        assert one.srq.query().srq_limit == 0
        one.send(1)
        one.device.no_event()
        poll_ok(one.home.rcq, 5)
        for number in range(5):
            one.recv(number)


def test_limit_at_creation(pd):
    """ibv_create_srq() ignores it, as its man page and mlx5 have it, whatever it is."""
    for limit in (2, 10, 11, 0xffffffff):
        srq = SRQ(pd, SrqInitAttr(SrqAttr(max_wr=10, srq_limit=limit)))
        assert srq.query().srq_limit == 0
        srq.close()


def test_limit_before_receives(shared):
    """What was not there cannot become fewer: the first receive that is taken is looked at."""
    one = shared(limit=2)
    assert one.srq.query().srq_limit == 2
    for number in range(3):
        one.recv(number)
    one.send(0)
    one.device.no_event()
    one.send(0)
    assert one.device.event() == LIMIT_EVENT


def test_limit_of_zero_is_none(shared):
    """Limit 0 takes an earlier limit back."""
    one = shared(limit=5)
    one.recv(1)
    one.srq.modify(SrqAttr(srq_limit=0), e.IBV_SRQ_LIMIT)
    one.send(0)
    one.device.no_event()


def test_bad_modify(shared):
    """A limit or a size out of range, a mask that nobody knows: nothing changes."""
    one = shared(max_wr=10)
    depth = one.srq.query().max_wr
    for attr, mask in ((SrqAttr(srq_limit=depth + 1), e.IBV_SRQ_LIMIT),
                       (SrqAttr(max_wr=0), e.IBV_SRQ_MAX_WR),
                       (SrqAttr(max_wr=1 << 20), e.IBV_SRQ_MAX_WR),
                       (SrqAttr(max_wr=20, srq_limit=21), e.IBV_SRQ_MAX_WR | e.IBV_SRQ_LIMIT),
                       (SrqAttr(), 1 << 4)):
        with refused(errno.EINVAL):
            one.srq.modify(attr, mask)
        attr = one.srq.query()
        assert (attr.max_wr, attr.srq_limit) == (depth, 0)


# --------------------------------------------------------------------------- resize

@pytest.mark.parametrize('before, after', [(10, 1000), (1000, 10), (16, 5), (5, 16)])
def test_resize(shared, before, after):
    """Receives that wait keep their order, and there is room for as many as were asked for."""
    one = shared(max_wr=before)
    for number in range(20):  # so that the ring's end is not at its beginning
        one.recv(number)
        one.send(0)
        poll_ok(one.home.rcq)
    for number in range(4):
        one.recv(number)
    one.srq.modify(SrqAttr(max_wr=after), e.IBV_SRQ_MAX_WR)
    depth = one.srq.query().max_wr
    assert depth >= after
    for number in range(4, depth):
        one.recv(number)
    with refused(errno.ENOMEM):
        one.recv(0)
    for number in range(min(depth, 200)):
        one.clients[0].region.write(pattern(16, number))
        one.send(0, 16)
        assert poll_ok(one.home.rcq).wr_id == number
        assert one.region.read(16, 64 * number) == pattern(16, number)


def test_resize_too_small(shared):
    """Not to fewer than are waiting."""
    one = shared(max_wr=10)
    for number in range(6):
        one.recv(number)
    with refused(errno.EINVAL):
        one.srq.modify(SrqAttr(max_wr=5), e.IBV_SRQ_MAX_WR)
    for number in range(6):
        one.send(0)
        assert poll_ok(one.home.rcq).wr_id == number


# ------------------------------------------------------------------- errors and the end

def test_last_wqe_reached(shared):
    """A QP that goes to ERR takes no more from the SRQ: the event says so; receives stay."""
    one = shared()
    one.recv(1)
    one.servers[0].to(e.IBV_QPS_ERR)
    assert one.device.event() == LAST_WQE
    one.device.no_event()
    poll_nothing(one.home.rcq)
    one.send(1)
    assert poll_ok(one.home.rcq).wr_id == 1


def test_last_wqe_reached_each_time(shared):
    """After RESET and back the event comes again."""
    one = shared(1)
    for _ in range(3):
        one.servers[0].to(e.IBV_QPS_ERR)
        assert one.device.event() == LAST_WQE
        for end in (one.servers[0], one.clients[0]):
            end.to(e.IBV_QPS_RESET)
        connect(one.clients[0], one.servers[0])
    one.recv(4)
    one.send(0)
    assert poll_ok(one.home.rcq).wr_id == 4


def test_error_takes_one_receive(shared):
    """A message that is too long uses up the receive that it failed in, and none else."""
    one = shared()
    one.recv(1, one.region.sge(0, 4))
    one.recv(2)
    one.clients[0].send(SEND, one.clients[0].region.sge(0, 8))
    assert poll_error(one.home.rcq, e.IBV_WC_LOC_LEN_ERR, 'RECV_TOO_SHORT').wr_id == 1
    assert poll(one.clients[0].scq)[0].status == e.IBV_WC_REM_INV_REQ_ERR
    assert one.device.event() == LAST_WQE
    poll_nothing(one.home.rcq)
    one.send(1)
    assert poll_ok(one.home.rcq).wr_id == 2


def test_sends_are_flushed_as_ever(shared):
    """The send queue of such a QP is flushed like any other."""
    one = shared()
    server = one.servers[0]
    server.send(SEND, server.region.sge(0, 8), wr_id=4)  # the client has no receive
    server.to(e.IBV_QPS_ERR)
    assert [(wc.wr_id, wc.status) for wc in poll(server.scq)] == [(4, FLUSH)]
    assert one.device.event() == LAST_WQE


def test_uc(shared):
    """UC QPs on an SRQ; a message without a receive is lost."""
    one = shared(qp_type=UC)
    one.send(0)
    one.recv(1)
    poll_nothing(one.home.rcq)
    one.send(1)
    assert poll_ok(one.home.rcq).wr_id == 1


def test_ud(shared):
    """UD QPs on an SRQ."""
    one = shared(qp_type=UD)
    for number, (client, server) in enumerate(zip(one.clients, one.servers)):
        ah = AH(client.pd, attr=client.device.address())
        one.recv(number, one.region.sge(1000 * number, 100))
        client.region.write(pattern(20, number))
        client.send(SEND, client.region.sge(0, 20), ud=(ah, server.qp.qp_num, QKEY))
        wc = poll_ok(one.home.rcq)
        assert (wc.wr_id, wc.qp_num, wc.src_qp, wc.byte_len) == (
            number, server.qp.qp_num, client.qp.qp_num, GRH_BYTES + 20)
        assert one.region.read(20, 1000 * number + GRH_BYTES) == pattern(20, number)
