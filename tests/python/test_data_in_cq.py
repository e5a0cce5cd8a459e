# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
Small messages wait in the CQ, and are copied by who polls, where programs carry them: of SRQs and UD QPs, from which
several consume, and of RC. What the device carries waits beside its receives (test_slot_data.py).
"""
import pytest
import verbs_enums as e
from pyverbs.addr import AH
from pyverbs.cq import CQ
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
from pyverbs.wr import RecvWR

import programs
from harness import GRH_BYTES, QKEY, RC, SEND, UD, connect, pattern, poll, poll_ok

pytestmark = pytest.mark.private_memory('to what both map small messages go at once')

MOST = 64  # bytes that do
SLOTS = 2048  # that a CQ has for them, at most
ROOM = 512  # of each receive
MEMORY = 2 << 20


class Ends:
    """A server whose receives come from an SRQ, or from the QP's own queue; and clients, each with its QP there."""

    def __init__(self, side, kind, clients=1, wr=64, cqe=256):
        self.qp_type = UD if kind.startswith('UD') else RC
        self.has_srq = 'SRQ' in kind
        self.header = GRH_BYTES if self.qp_type == UD else 0
        first = side(self.qp_type, size=MEMORY, cqe=cqe, recv_wr=wr)
        self.device, self.pd, self.region, self.rcq = first.device, first.pd, first.region, first.rcq
        self.srq = SRQ(self.pd, SrqInitAttr(SrqAttr(max_wr=wr, max_sge=2))) if self.has_srq else None
        self.servers = [first] if not self.has_srq else [
            side(self.qp_type, device=self.device, pd=self.pd, rcq=self.rcq, srq=self.srq) for _ in range(clients)]
        self.clients = [side(self.qp_type, cqe=1024) for _ in range(clients)]
        for client, server in zip(self.clients, self.servers):
            if self.qp_type == UD:
                client.start()
                server.start()
                client.ah = AH(client.pd, attr=client.device.address(server.device))
            else:
                connect(client, server)
        self.posted = 0

    def recv(self, count=1):
        for _ in range(count):
            at = self.at(self.posted)
            self.region.write(bytes(ROOM), at)
            wr = RecvWR(self.posted, 1, [self.region.sge(at, ROOM)])
            if self.srq:
                self.srq.post_recv(wr)
            else:
                self.servers[0].qp.post_recv(wr)
            self.posted += 1

    def send(self, seed, length, number=0):
        client, server = self.clients[number], self.servers[number]
        client.region.write(pattern(length, seed))
        ud = (client.ah, server.qp.qp_num, QKEY) if self.qp_type == UD else None
        client.send(SEND, client.region.sge(0, length), ud=ud)
        poll_ok(client.scq)

    def all_arrive(self, count):
        """In order, in receives of the same numbers as their seeds."""
        for seed in range(count):
            assert poll_ok(self.rcq).wr_id == seed
            assert self.has(seed, seed, 40)

    def at(self, receive):
        return receive * ROOM % MEMORY

    def has(self, receive, seed, length):
        return self.region.read(length, self.at(receive) + self.header) == pattern(length, seed)

    def arrives(self, seed, length, number=0, receive=None):
        """In that receive, or the last: it is polled, and then its data are there; returns whether they were before."""
        receive = self.posted - 1 if receive is None else receive
        before = self.has(receive, seed, length)
        wc = poll_ok(self.servers[number].rcq)
        assert (wc.wr_id, wc.byte_len) == (receive, self.header + length)
        assert self.has(receive, seed, length)
        return before


@pytest.fixture(scope='module', autouse=True)
def programs_carry():
    options = programs.daemon_status()['options']
    if '--fast-path=on' not in options or '--memory=agent' in options:
        pytest.skip('the device carries all messages, and places what they bring')


@pytest.fixture
def ends(side):
    made = []

    def make(*arguments, **options):
        made.append(Ends(side, *arguments, **options))
        return made[-1]

    yield make
    for one in made:
        if one.srq:
            for server in one.servers:
                server.qp.close()
            one.srq.close()


KINDS = ['RC', 'SRQ', 'UD', 'UD with an SRQ']


@pytest.mark.parametrize('kind', KINDS)
@pytest.mark.parametrize('length', [5, MOST - 1, MOST, MOST + 1])
def test_until_it_is_polled(ends, kind, length):
    """The buffer has the data when the receive was polled; of small ones not before."""
    one = ends(kind)
    for seed in range(1, 200):  # three times round the queue
        one.recv()
        one.send(seed, length)
        assert one.arrives(seed, length) == (length > MOST)


@pytest.mark.parametrize('kind', KINDS)
def test_a_buffer_that_is_deregistered(ends, kind):
    """It may be anybody's by the time that its receive is polled: it is not written to any more."""
    one = ends(kind)
    region = one.servers[0].new_region(ROOM)
    region.write(b'\xee' * ROOM)
    (one.srq or one.servers[0].qp).post_recv(RecvWR(7, 1, [region.sge()]))
    one.send(3, 20)
    region.mr.close()
    assert poll_ok(one.rcq).wr_id == 7
    assert region.read(ROOM) == b'\xee' * ROOM


@pytest.mark.parametrize('kind', KINDS[2:])
def test_the_header(ends, kind):
    """Where there is none, the bytes that are for it are not touched."""
    one = ends(kind)
    one.recv()
    one.region.write(b'\xee' * ROOM)
    one.send(3, 20)
    wc = poll_ok(one.rcq)
    assert one.has(wc.wr_id, 3, 20)
    if wc.wc_flags & e.IBV_WC_GRH:
        assert one.region.read(1)[0] >> 4 in (4, 6, 0)  # what a RoCE v2 packet from an IPv4 address has lies behind
        assert one.region.read(GRH_BYTES) != b'\xee' * GRH_BYTES
    else:
        assert one.region.read(GRH_BYTES) == b'\xee' * GRH_BYTES
    rest = ROOM - one.header - 20
    assert one.region.read(rest, one.header + 20) == b'\xee' * rest


@pytest.mark.parametrize('kind', KINDS)
def test_buffers(ends, kind):
    """What does not fit into the first one is placed at once; so is nothing."""
    one = ends(kind)
    room = one.header + 30
    sges = [one.region.sge(0, room), one.region.sge(ROOM, ROOM)]
    wr = RecvWR(0, 2, sges)
    for length, early in ((30, False), (31, True), (0, True)):
        one.region.write(bytes(2 * ROOM))
        (one.srq or one.servers[0].qp).post_recv(wr)
        one.send(5, length)
        came = one.region.read(min(length, 30), one.header) == pattern(length, 5)[:30]
        assert came == early
        assert poll_ok(one.rcq).byte_len == one.header + length
        whole = one.region.read(min(length, 30), one.header) + one.region.read(max(0, length - 30), ROOM)
        assert whole == pattern(length, 5)


@pytest.mark.parametrize('kind', KINDS)
def test_many_wait(ends, kind):
    """More than the CQ has room for: those behind are placed at once, and all are whole."""
    wr = SLOTS * 3 // 2
    one = ends(kind, wr=wr, cqe=wr)
    one.recv(wr)
    for seed in range(wr):
        one.send(seed, 40)
    in_cq = [not one.has(i, i, 40) for i in range(wr)]
    assert in_cq.index(False) == SLOTS * 3 // 4 and not any(in_cq[in_cq.index(False):])
    one.all_arrive(wr)


def test_one_that_is_not_polled(side, ends):
    """Of an SRQ that two CQs complete; one goes round it while data wait in the other, and both have theirs."""
    one = ends('SRQ', wr=8)
    other = CQ(one.servers[0].ctx, 64)
    server, client = side(RC, device=one.device, pd=one.pd, rcq=other, srq=one.srq), side(RC)
    connect(client, server)
    one.servers.append(server)
    one.clients.append(client)
    one.recv()
    one.send(77, 50, number=1)
    early = []
    for seed in range(1, 33):
        one.recv()
        one.send(seed, 50)
        early.append(one.arrives(seed, 50))
    assert any(early) and not all(early)  # whose place in the queue is that of the receive that waits
    assert one.arrives(77, 50, number=1, receive=0) is False
    for seed in range(101, 120):
        one.recv()
        one.send(seed, 50)
        assert one.arrives(seed, 50) is False


@pytest.mark.parametrize('kind', KINDS)
@pytest.mark.parametrize('size', [20, 2000])
def test_a_cq_that_is_resized(ends, kind, size):
    """Data wait where they are."""
    one = ends(kind)
    one.recv(10)
    for seed in range(5):
        one.send(seed, 40)
    one.rcq.resize(size)
    for seed in range(5, 10):
        one.send(seed, 40)
    one.all_arrive(10)


@pytest.mark.parametrize('kind', ['SRQ', 'UD with an SRQ'])
@pytest.mark.parametrize('size', [12, 500])
def test_an_srq_that_is_resized(ends, kind, size):
    """Likewise, and what is posted and what has not been polled keep what was noted of them."""
    one = ends(kind)
    one.recv(10)
    for seed in range(5):
        one.send(seed, 40)
    one.srq.modify(SrqAttr(max_wr=size), e.IBV_SRQ_MAX_WR)
    for seed in range(5, 10):
        one.send(seed, 40)
    one.all_arrive(10)
    for seed in range(10, 60):
        one.recv()
        one.send(seed, 40)
        one.arrives(seed, 40)


def test_a_qp_that_goes(side, ends):
    """Completions that nobody polls take their data with them, and the SRQ's next ones wait in the CQ as before."""
    one = ends('SRQ', clients=2, wr=8)
    for seed in range(4):
        one.recv()
        one.send(seed, 40, number=1)
    one.servers[1].qp.close()
    assert not one.rcq.poll()[0]
    assert not any(one.has(i, i, 40) for i in range(4))
    for seed in range(10, 40):
        one.recv()
        one.send(seed, 40)
        assert one.arrives(seed, 40) is False


@pytest.mark.parametrize('how', [e.IBV_QPS_RESET, e.IBV_QPS_ERR])
def test_a_ud_qp_that_starts_over(ends, how):
    """Those that wait are gone, or complete; what is posted then may wait again."""
    one = ends('UD', wr=8)
    server = one.servers[0]
    one.recv(6)
    for seed in range(3):
        one.send(seed, 40)
    server.to(how)
    if how == e.IBV_QPS_ERR:
        one.all_arrive(3)
        assert [wc.status for wc in poll(one.rcq, 3)] == [e.IBV_WC_WR_FLUSH_ERR] * 3
        server.to(e.IBV_QPS_RESET)
    assert not any(one.has(i, i, 40) for i in range(3)) or how == e.IBV_QPS_ERR
    server.start()
    early = []
    for seed in range(10, 200):
        one.recv()
        one.send(seed, 40)
        early.append(one.arrives(seed, 40))
    assert not any(early[-20:])  # the first ones are the device's, until the client is attached again


def test_on_infiniband():
    """Where a datagram may have no header, which leaves the buffer's bytes as they are."""
    programs.private_tests('test_data_in_cq.py', '-k', 'the_header or until_it_is_polled',
                           options=['--link-layer', 'ib', '--daemon-option', 'fast-path=on'])
