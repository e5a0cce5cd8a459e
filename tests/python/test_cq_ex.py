# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Extended CQs: ibv_start_poll and its family, with every field that this device reports."""
import errno
import socket
import time

import pytest
import verbs_enums as e
from pyverbs.addr import AH
from pyverbs.cq import PollCqAttr

from extended_cq import ALL, ENOENT, make_cq, take
from harness import (FETCH_ADD, GRH_BYTES, RC, READ, SEND, SEND_IMM, UD, WRITE,
                     WRITE_IMM, connect, poll_ok, refused)

pytestmark = pytest.mark.addresses


@pytest.fixture
def extended(side):
    """A connected pair, both ends with extended CQs."""

    def make(qp_type=RC):
        ends = []
        for _ in range(2):
            probe = side(qp_type, size=0)
            ends.append(side(qp_type, device=probe.device, pd=probe.pd, scq=make_cq(probe.ctx),
                             rcq=make_cq(probe.ctx)))
        if qp_type == RC:
            connect(*ends)
        else:
            for end in ends:
                end.start()
        return ends

    return make


def test_empty(ctx):
    """An empty queue says ENOENT; ending a poll that did not start does no harm."""
    cq = make_cq(ctx)
    for _ in range(3):
        assert cq.start_poll(PollCqAttr()) == ENOENT
        cq.end_poll()
    cq.close()


def test_unknown_poll_attribute(ctx):
    """A comp_mask that the device does not know is refused."""
    cq = make_cq(ctx)
    attr = PollCqAttr()
    attr.comp_mask = 1
    assert cq.start_poll(attr) == errno.EINVAL
    cq.close()


def test_bad_attributes(ctx):
    """Sizes and vectors as for any CQ; flags that nobody knows."""
    limit = ctx.query_device().max_cqe
    for options in ({'cqe': 0}, {'cqe': limit + 1}, {'comp_vector': ctx.num_comp_vectors}):
        with refused(errno.EINVAL):
            make_cq(ctx, **options)
    with refused(errno.EOPNOTSUPP):
        make_cq(ctx, 1 << 40)
    with refused(errno.EINVAL):
        make_cq(ctx, comp_mask=e.IBV_CQ_INIT_ATTR_MASK_FLAGS, flags=1 << 20)


@pytest.mark.parametrize('flags', [1 << bit for bit in range(12) if ALL & 1 << bit])
def test_each_field_alone(ctx, flags):
    """Each field can be asked for by itself."""
    make_cq(ctx, flags).close()


@pytest.mark.parametrize('flags', [e.IBV_CREATE_CQ_ATTR_SINGLE_THREADED,
                                   e.IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN])
def test_creation_flags(ctx, flags):
    """The flags that this device knows."""
    make_cq(ctx, comp_mask=e.IBV_CQ_INIT_ATTR_MASK_FLAGS, flags=flags).close()


def test_rc_fields(extended):
    """Each operation's opcode at the sender, and all of the receiver's fields."""
    client, server = extended()
    region, place = client.region, server.region.at()
    server.recv(wr_id=11)
    server.recv(wr_id=12)
    client.send(SEND_IMM, region.sge(0, 123), imm=0xaabbccdd, wr_id=1)
    client.send(WRITE, region.sge(0, 8), to=place, wr_id=2)
    client.send(READ, region.sge(0, 8), to=place, wr_id=3)
    client.send(FETCH_ADD, region.sge(0, 8), to=place, wr_id=4)
    client.send(WRITE_IMM, region.sge(0, 77), to=place, imm=5, wr_id=5)
    sent, received = take(client.scq, 5), take(server.rcq, 2)
    assert [(wc['wr_id'], wc['status'], wc['opcode'], wc['qp_num']) for wc in sent] == [
        (number, 0, opcode, client.qp.qp_num) for number, opcode in
        ((1, e.IBV_WC_SEND), (2, e.IBV_WC_RDMA_WRITE), (3, e.IBV_WC_RDMA_READ),
         (4, e.IBV_WC_FETCH_ADD), (5, e.IBV_WC_RDMA_WRITE))]
    expected = ((11, e.IBV_WC_RECV, 123, 0xaabbccdd),
                (12, e.IBV_WC_RECV_RDMA_WITH_IMM, 77, 5))
    for wc, (wr_id, opcode, length, imm) in zip(received, expected):
        assert (wc['wr_id'], wc['opcode'], wc['byte_len']) == (wr_id, opcode, length)
        assert socket.ntohl(wc['imm_data']) == imm
        assert wc['wc_flags'] == e.IBV_WC_WITH_IMM
        assert wc['qp_num'] == server.qp.qp_num
        assert (wc['status'], wc['vendor_err'], wc['sl'], wc['dlid_path_bits']) == (0, 0, 0, 0)
        # Of frames alone, and immediate data are neither.
        assert (wc['cvlan'], wc['flow_tag']) == (0, 0)


def test_ud_fields(extended):
    """A datagram's receiver learns who sent it, and of the GRH."""
    client, server = extended(UD)
    server.recv()
    ah = AH(client.pd, attr=client.device.address(server.device))
    client.send(SEND, client.region.sge(0, 100), ud=(ah, server.qp.qp_num, 0x11111111))
    wc = take(server.rcq)[0]
    assert wc['src_qp'] == client.qp.qp_num
    assert wc['byte_len'] == 100 + GRH_BYTES
    assert bool(wc['wc_flags'] & e.IBV_WC_GRH) == client.device.ethernet
    assert wc['slid'] == client.device.port.lid


@pytest.mark.parametrize('level', [0, 5, 15])
def test_service_level(extended, level):
    """
    On InfiniBand the service level is the sender's, from its address handle. RoCE has none, and tells
    in its place which header came along.
    """
    client, server = extended(UD)
    server.recv()
    address = client.device.address(server.device)
    address.sl = level
    ah = AH(client.pd, attr=address)
    client.send(SEND, client.region.sge(0, 1), ud=(ah, server.qp.qp_num, 0x11111111))
    assert take(server.rcq)[0]['sl'] in ((9, 10) if client.device.ethernet else (level,))


def test_timestamps(extended):
    """Timestamps are of the device's clock, the wall clock's of the system; they go forward."""
    client, server = extended()
    attr = client.ctx.query_device_ex()
    clock = attr.hca_core_clock  # kHz
    assert clock and attr.completion_timestamp_mask == 2**64 - 1

    def device_ns():
        seconds, ticks = client.ctx.query_rt_values_ex()
        return (seconds * 1000000000 + ticks) * 1000000 // clock

    for _ in range(5):
        server.recv()
        before, wall_before = device_ns(), time.time_ns()
        client.send(SEND, client.region.sge(0, 8))
        wc = take(client.scq)[0]
        after, wall_after = device_ns(), time.time_ns()
        assert before <= wc['timestamp'] * 1000000 // clock <= after
        assert wall_before <= wc['completion_wallclock_ns'] <= wall_after


def test_errors(extended):
    """A flushed receive, seen through an extended CQ."""
    _, server = extended()
    server.recv(wr_id=99)
    server.to(e.IBV_QPS_ERR)
    wc = take(server.rcq)[0]
    assert (wc['wr_id'], wc['status'], wc['qp_num']) == (99, e.IBV_WC_WR_FLUSH_ERR,
                                                         server.qp.qp_num)
    assert wc['vendor_err'] == 1


def test_batches(extended):
    """Hundreds of completions in batches, around the ring, none lost; slots are given back."""
    client, server = extended()
    number = 0
    for batch in (1, 7, 64, 50, 64, 3):
        for _ in range(batch):
            client.send(WRITE, client.region.sge(0, 1), to=server.region.at(), wr_id=number)
            number += 1
        assert [wc['wr_id'] for wc in take(client.scq, batch)] == list(
            range(number - batch, number))


def test_mixed_with_plain_cq(extended, side):
    """A QP may have one CQ of each kind."""
    probe = side(size=0)
    one = side(device=probe.device, pd=probe.pd, scq=make_cq(probe.ctx))
    other = side()
    connect(one, other)
    one.recv()
    other.recv()
    one.send(SEND, one.region.sge(0, 5))
    assert take(one.scq)[0]['opcode'] == e.IBV_WC_SEND
    other.send(SEND, other.region.sge(0, 6))
    assert poll_ok(one.rcq).byte_len == 6
