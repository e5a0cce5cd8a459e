# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Every operation of connected QPs, posted through both interfaces; data byte for byte."""
import errno
import random
import socket

import pytest
import verbs_enums as e
from pyverbs.wr import SGE

from harness import (APIS, CMP_SWP, FETCH_ADD, FULL, MAX_MSG, RC, READ, SEND, SEND_IMM, SIGNALED,
                     UC, WRITE, WRITE_IMM, Memory, connect, pattern, poll, poll_error, poll_nothing,
                     poll_ok, refused)

INLINE = SIGNALED | e.IBV_SEND_INLINE
FENCE = SIGNALED | e.IBV_SEND_FENCE
CONNECTED = pytest.mark.parametrize('qp_type', [RC, UC], ids=['RC', 'UC'])
# Around a packet, several packets, a page, what the device takes at a time.
SIZES = [1, 2, 7, 1023, 1024, 1025, 4095, 4096, 4097, 65536, 65537, 524288, 524289, 3 << 20]


@pytest.fixture(params=APIS)
def api(request):
    return request.param


def ends(pair, api, qp_type=RC, **options):
    return pair(qp_type, ex=api == 'wr', **options)


# ----------------------------------------------------------------------------- SEND

@CONNECTED
@pytest.mark.parametrize('size', SIZES)
def test_send(pair, api, qp_type, size):
    """A message arrives whole, in the buffer's first bytes, and its length is reported."""
    client, server = ends(pair, api, qp_type, size=size + 100)
    client.region.write(pattern(size), 50)
    server.region.write(b'\xee' * (size + 100))
    server.recv(server.region.sge(10), wr_id=4)
    client.send(SEND, client.region.sge(50, size), api=api, wr_id=3)
    wc = poll_ok(client.scq)
    assert (wc.wr_id, wc.opcode) == (3, e.IBV_WC_SEND)
    wc = poll_ok(server.rcq)
    assert (wc.wr_id, wc.opcode, wc.byte_len, wc.wc_flags) == (4, e.IBV_WC_RECV, size, 0)
    assert server.region.read(size + 100) == b'\xee' * 10 + pattern(size) + b'\xee' * 90


@CONNECTED
@pytest.mark.parametrize('size', [0, 1, 5000])
def test_send_with_immediate(pair, api, qp_type, size):
    """Immediate data come in network order with the receive's completion."""
    client, server = ends(pair, api, qp_type)
    client.region.write(pattern(5000))
    server.recv()
    client.send(SEND_IMM, client.region.sge(0, size), api=api, imm=0x12345678)
    assert poll_ok(client.scq).opcode == e.IBV_WC_SEND
    wc = poll_ok(server.rcq)
    assert (wc.opcode, wc.byte_len) == (e.IBV_WC_RECV, size)
    assert wc.wc_flags == e.IBV_WC_WITH_IMM
    assert socket.ntohl(wc.imm_data) == 0x12345678
    assert server.region.read(size) == pattern(5000)[:size]


@pytest.mark.addresses
@CONNECTED
def test_zero_length(pair, api, qp_type):
    """No SGE, and an SGE of length 0, are messages of no bytes; 0 is not 2^31."""
    client, server = ends(pair, api, qp_type)
    server.region.write(b'x' * 100)
    for sges in ((), (client.region.sge(0, 0),), (SGE(0, 0, 0), SGE(12345, 0, 99))):
        server.recv()
        client.send(SEND, *sges, api=api)
        poll_ok(client.scq)
        assert poll_ok(server.rcq).byte_len == 0
        client.send(WRITE, *sges, to=server.region.at(), api=api)
        poll_ok(client.scq)
        if qp_type == RC:
            client.send(READ, *sges, to=server.region.at(), api=api)
            poll_ok(client.scq)
    # With no byte to move, the remote key and address are not looked at.
    client.send(WRITE, to=(0, 0), api=api)
    poll_ok(client.scq)
    assert server.region.read(100) == b'x' * 100
    assert client.region.read(100) == bytes(100)


@CONNECTED
def test_receive_into_no_buffer(pair, qp_type):
    """An empty message fits a receive of length 0."""
    client, server = pair(qp_type)
    server.recv(server.region.sge(0, 0), wr_id=8)
    client.send(SEND_IMM, imm=3)
    poll_ok(client.scq)
    wc = poll_ok(server.rcq)
    assert (wc.wr_id, wc.byte_len, socket.ntohl(wc.imm_data)) == (8, 0, 3)


# ------------------------------------------------------------------------ RDMA WRITE

@CONNECTED
@pytest.mark.parametrize('size', SIZES)
def test_write(pair, api, qp_type, size):
    """The bytes are where the work request said and nowhere else; no receive is used."""
    client, server = ends(pair, api, qp_type, size=size + 100)
    client.region.write(pattern(size), 1)
    server.region.write(b'\xee' * (size + 100))
    server.recv(server.region.sge(0, 1))
    client.send(WRITE, client.region.sge(1, size), to=server.region.at(33), api=api, wr_id=9)
    wc = poll_ok(client.scq)
    assert (wc.wr_id, wc.opcode) == (9, e.IBV_WC_RDMA_WRITE)
    if qp_type == UC:
        poll_nothing(server.rcq)
    assert server.region.read(size + 100) == b'\xee' * 33 + pattern(size) + b'\xee' * 67
    poll_nothing(server.rcq, 0.01)


@CONNECTED
@pytest.mark.parametrize('size', [0, 1, 1024, 700000])
def test_write_with_immediate(pair, api, qp_type, size):
    """The data go to the remote address, the immediate uses up a receive, whose buffer stays."""
    client, server = ends(pair, api, qp_type, size=1 << 20)
    client.region.write(pattern(size))
    server.recv(server.region.sge(0, 16), wr_id=6)
    client.send(WRITE_IMM, client.region.sge(0, size), to=server.region.at(4096), imm=0xfedcba98,
                api=api)
    assert poll_ok(client.scq).opcode == e.IBV_WC_RDMA_WRITE
    wc = poll_ok(server.rcq)
    assert (wc.wr_id, wc.opcode, wc.byte_len) == (6, e.IBV_WC_RECV_RDMA_WITH_IMM, size)
    assert wc.wc_flags == e.IBV_WC_WITH_IMM
    assert socket.ntohl(wc.imm_data) == 0xfedcba98
    assert server.region.read(4096 + size) == bytes(4096) + pattern(size)


# ------------------------------------------------------------------------- RDMA READ

@pytest.mark.parametrize('size', SIZES)
def test_read(pair, api, size):
    """The remote bytes come into the local buffer, which nothing else touches."""
    client, server = ends(pair, api, size=size + 100)
    server.region.write(pattern(size), 77)
    client.region.write(b'\xee' * (size + 100))
    client.send(READ, client.region.sge(5, size), to=server.region.at(77), api=api, wr_id=2)
    wc = poll_ok(client.scq)
    assert (wc.wr_id, wc.opcode, wc.byte_len) == (2, e.IBV_WC_RDMA_READ, size)
    assert client.region.read(size + 100) == b'\xee' * 5 + pattern(size) + b'\xee' * 95


def test_read_while_the_other_side_posts(pair):
    """Reads in both directions at once."""
    client, server = pair()
    client.region.write(pattern(4096, 1), 4096)
    server.region.write(pattern(4096, 2), 4096)
    for number in range(32):
        client.send(READ, client.region.sge(128 * number, 128), to=server.region.at(
            4096 + 128 * number))
        server.send(READ, server.region.sge(128 * number, 128), to=client.region.at(
            4096 + 128 * number))
    poll_ok(client.scq, 32)
    poll_ok(server.scq, 32)
    assert client.region.read(4096) == pattern(4096, 2)
    assert server.region.read(4096) == pattern(4096, 1)


# --------------------------------------------------------------------------- atomics

def _value(region, offset=0):
    return int.from_bytes(region.read(8, offset), 'little')


def test_fetch_and_add(pair, api):
    """The sum is in the remote word, what was there before in the local one; modulo 2^64."""
    client, server = ends(pair, api)
    for old, add in ((5, 7), ((1 << 64) - 1, 3), (0, (1 << 64) - 1), (1 << 63, 1 << 63)):
        server.region.write(b'\xee' * 8 + old.to_bytes(8, 'little') + b'\xee' * 8)
        client.send(FETCH_ADD, client.region.sge(16, 8), to=server.region.at(8), compare_add=add,
                    api=api)
        wc = poll_ok(client.scq)
        assert (wc.opcode, wc.byte_len) == (e.IBV_WC_FETCH_ADD, 8)
        assert _value(client.region, 16) == old
        assert server.region.read(24) == (
            b'\xee' * 8 + ((old + add) % (1 << 64)).to_bytes(8, 'little') + b'\xee' * 8)


def test_compare_and_swap(pair, api):
    """The word is swapped only if it was the one compared with; its old value always comes."""
    client, server = ends(pair, api)
    for old, compare, swap in ((5, 5, 9), (5, 6, 9), (1 << 63, 1 << 63, 0), (0, 1, 1)):
        server.region.write(old.to_bytes(8, 'little'))
        client.send(CMP_SWP, client.region.sge(0, 8), to=server.region.at(), compare_add=compare,
                    swap=swap, api=api)
        wc = poll_ok(client.scq)
        assert (wc.opcode, wc.byte_len) == (e.IBV_WC_COMP_SWAP, 8)
        assert _value(client.region) == old
        assert _value(server.region) == (swap if old == compare else old)


def test_atomic_result_scattered(pair, api):
    """The old value may go to several places."""
    client, server = ends(pair, api)
    server.region.write(bytes(range(8)))
    client.send(FETCH_ADD, client.region.sge(0, 3), client.region.sge(100, 5),
                to=server.region.at(), compare_add=1, api=api)
    poll_ok(client.scq)
    assert client.region.read(3) == bytes(range(3))
    assert client.region.read(5, 100) == bytes(range(3, 8))


@pytest.mark.addresses
def test_atomics_of_many(side):
    """Adds from several QPs and contexts lose nothing, and each sees another old value."""
    home = side()
    workers = []
    for _ in range(4):
        worker, server = side(), side(device=home.device, pd=home.pd)
        connect(worker, server)
        workers.append(worker)
    for number in range(50):
        for worker in workers:
            worker.send(FETCH_ADD, worker.region.sge(8 * number, 8), to=home.region.at(),
                        compare_add=1)
    seen = set()
    for worker in workers:
        poll_ok(worker.scq, 50)
        values = [_value(worker.region, 8 * number) for number in range(50)]
        assert values == sorted(values)
        seen.update(values)
    assert seen == set(range(200))
    assert _value(home.region) == 200


# ------------------------------------------------------------------ inline, many SGEs

@CONNECTED
@pytest.mark.parametrize('opcode', [SEND, SEND_IMM, WRITE, WRITE_IMM])
@pytest.mark.parametrize('size', [0, 1, 63, 64, 65, 512])
def test_inline(pair, api, qp_type, opcode, size):
    """Inline data need no key, and the buffer may be used again when the call returns."""
    client, server = ends(pair, api, qp_type, inline=512)
    memory = Memory(4096)
    server.recv()
    memory.write(pattern(size))
    client.send(opcode, SGE(memory.addr, size, 0), flags=INLINE, api=api, imm=7,
                to=server.region.at() if opcode in (WRITE, WRITE_IMM) else None)
    memory.write(b'\xff' * 512)
    poll_ok(client.scq)
    if opcode == WRITE:
        poll_nothing(server.rcq, 0.02)
    else:
        assert poll_ok(server.rcq).byte_len == size
    assert server.region.read(size + 1) == pattern(size) + b'\0'
    memory.close()


def test_inline_in_pieces(pair, api):
    """Inline data gathered from several places."""
    client, server = ends(pair, api, inline=100)
    client.region.write(pattern(300))
    server.recv()
    client.send(SEND, *[SGE(client.region.addr + 100 * i, 10 + i, 0) for i in range(3)],
                flags=INLINE, api=api)
    poll_ok(client.scq)
    assert poll_ok(server.rcq).byte_len == 33
    data = pattern(300)
    assert server.region.read(33) == data[:10] + data[100:111] + data[200:212]


@CONNECTED
def test_scatter_and_gather(pair, api, qp_type):
    """30 pieces of different lengths, some empty, gathered here and scattered there otherwise."""
    client, server = ends(pair, api, qp_type, send_sge=30, recv_sge=30, size=1 << 20)
    rng = random.Random(4)
    client.region.write(pattern(1 << 20))
    pieces = [(rng.randrange(1 << 19), rng.choice((0, 1, 17, 1024, 4097))) for _ in range(30)]
    total = sum(length for _, length in pieces)
    message = b''.join(client.region.read(length, offset) for offset, length in pieces)
    places = [(32768 * number, rng.choice((0, 3, 1000, 5000))) for number in range(29)]
    places.append((32768 * 29, total))
    server.recv(*[server.region.sge(*place) for place in places])
    client.send(SEND, *[client.region.sge(*piece) for piece in pieces], api=api)
    poll_ok(client.scq)
    assert poll_ok(server.rcq).byte_len == total
    left = message
    for offset, length in places:
        assert server.region.read(length + 1, offset)[:length].startswith(left[:length])
        left = left[length:]
    assert not left


def test_gather_write_scatter_read(pair, api):
    """SGEs of RDMA operations, from different regions."""
    client, server = ends(pair, api, send_sge=4)
    other = client.new_region(10000)
    client.region.write(pattern(3000, 1))
    other.write(pattern(3000, 2))
    client.send(WRITE, client.region.sge(0, 3000), other.sge(0, 3000), to=server.region.at(),
                api=api)
    poll_ok(client.scq)
    assert server.region.read(6000) == pattern(3000, 1) + pattern(3000, 2)
    client.send(READ, other.sge(5000, 2500), client.region.sge(10000, 3500),
                to=server.region.at(), api=api)
    poll_ok(client.scq)
    data = pattern(3000, 1) + pattern(3000, 2)
    assert other.read(2500, 5000) == data[:2500]
    assert client.region.read(3500, 10000) == data[2500:]


# --------------------------------------------------------------------- large messages

@pytest.mark.parametrize('opcode', [SEND, WRITE, READ])
def test_16_mib(pair, opcode):
    """A long message, byte for byte."""
    size = (16 << 20) + 3
    client, server = pair(size=size)
    source, target = (server, client) if opcode == READ else (client, server)
    data = pattern(size)
    source.region.write(data)
    if opcode == SEND:
        server.recv()
    client.send(opcode, client.region.sge(), to=server.region.at())
    poll_ok(client.scq)
    if opcode == SEND:
        assert poll_ok(server.rcq).byte_len == size
    assert target.region.read(size) == data


def test_longest_message(pair):
    """Exactly 1 GiB goes through."""
    piece = 64 << 20
    client, server = pair(size=piece, send_sge=16, recv_sge=16)
    # A pattern of less than a piece is at another place in each slice of one.
    data = pattern(251 << 10)
    for offset in range(0, piece - len(data), len(data)):
        client.region.write(data, offset)
    server.recv(*[server.region.sge()] * 16)
    client.send(SEND, *[client.region.sge()] * 16)
    poll_ok(client.scq, timeout=30)
    assert poll_ok(server.rcq).byte_len == MAX_MSG
    for offset in range(0, piece - len(data), len(data)):
        assert server.region.read(len(data), offset) == data


@CONNECTED
@pytest.mark.parametrize('opcode', [SEND, WRITE, READ])
@pytest.mark.parametrize('sges', [1, 2])
def test_too_long(pair, qp_type, opcode, sges):
    """One byte more than 1 GiB: a local length error; the peer sees nothing of it."""
    if (qp_type, opcode) == (UC, READ):
        return  # UC has no READ: see test_post.py
    client, server = pair(qp_type)
    huge = client.new_region(MAX_MSG + 4096, 0 if opcode != READ else FULL)
    server.recv()
    lengths = [MAX_MSG + 1] if sges == 1 else [MAX_MSG, 1]
    client.send(opcode, *[huge.sge(0, length) for length in lengths], to=server.region.at(),
                wr_id=1)
    wc = poll_error(client.scq, e.IBV_WC_LOC_LEN_ERR, 'MSG_TOO_LONG')
    assert wc.wr_id == 1
    poll_nothing(server.rcq)
    assert server.state() == e.IBV_QPS_RTS


# ---------------------------------------------------------------------- order, fences

@pytest.mark.addresses
def test_fence(pair, api):
    """What follows a READ with a fence sees what the READ brought."""
    client, server = ends(pair, api)
    for turn in range(100):
        server.region.write(turn.to_bytes(4, 'big') * 64)
        client.send(READ, client.region.sge(0, 256), to=server.region.at(), flags=0, api=api)
        client.send(WRITE, client.region.sge(0, 256), to=server.region.at(1024), flags=FENCE,
                    api=api)
        poll_ok(client.scq)
        assert server.region.read(256, 1024) == turn.to_bytes(4, 'big') * 64


def test_fence_after_atomic(pair, api):
    """The same after an atomic."""
    client, server = ends(pair, api)
    for turn in range(100):
        client.send(FETCH_ADD, client.region.sge(0, 8), to=server.region.at(), compare_add=1,
                    flags=0, api=api)
        client.send(WRITE, client.region.sge(0, 8), to=server.region.at(8), flags=FENCE, api=api)
        poll_ok(client.scq)
        assert (_value(server.region), _value(server.region, 8)) == (turn + 1, turn)


@pytest.mark.addresses
def test_write_then_send(pair):
    """Data written before a send are there when the send's receive completes."""
    client, server = pair(size=1 << 18)
    for turn in range(100):
        data = pattern(200000, turn)
        client.region.write(data)
        server.recv(server.region.sge(1 << 17, 1))
        client.send(WRITE, client.region.sge(0, 100000), to=server.region.at(), flags=0)
        client.send(SEND)
        poll_ok(server.rcq)
        assert server.region.read(100000) == data[:100000]
        poll_ok(client.scq)


@pytest.mark.addresses
def test_loopback_to_itself(side):
    """A QP connected to itself."""
    one = side()
    one.start(one)
    one.region.write(pattern(1000))
    one.recv(one.region.sge(4096, 1000), wr_id=1)
    one.send(SEND, one.region.sge(0, 1000), wr_id=2)
    one.send(WRITE, one.region.sge(0, 1000), to=one.region.at(8192), wr_id=3)
    assert [wc.wr_id for wc in poll_ok(one.scq, 2)] == [2, 3]
    assert poll_ok(one.rcq).wr_id == 1
    assert one.region.read(1000, 4096) == one.region.read(1000, 8192) == pattern(1000)


@pytest.mark.addresses
@CONNECTED
def test_with_and_without_grh(side, qp_type):
    """On InfiniBand a path may have a GRH or not, on Ethernet it has one; each GID will do."""
    indices = [entry.gid_index for entry in side(size=0).ctx.query_gid_table(8)]
    for index in indices:
        client, server = side(qp_type), side(qp_type)
        for one in (client, server):
            one.to_init()
        for one, peer in ((client, server), (server, client)):
            one.to_rtr(peer, ah_attr=one.device.address(peer.device, index, grh=True))
            one.to_rts()
        server.recv()
        client.send(SEND, client.region.sge(0, 10))
        poll_ok(client.scq)
        wc = poll_ok(server.rcq)
        assert (wc.byte_len, wc.wc_flags) == (10, 0)


@CONNECTED
@pytest.mark.parametrize('mtu', [e.IBV_MTU_256, e.IBV_MTU_1024, e.IBV_MTU_4096])
def test_path_mtu(pair, qp_type, mtu):
    """Messages of many packets, with packet numbers that wrap."""
    client, server = pair(qp_type, client_has={'path_mtu': mtu}, server_has={'path_mtu': mtu})
    client.region.write(pattern(60000))
    for turn in range(20):
        server.recv()
        client.send(SEND, client.region.sge(0, 3000 * turn))
        poll_ok(client.scq)
        assert poll_ok(server.rcq).byte_len == 3000 * turn
        assert server.region.read(3000 * turn) == pattern(60000)[:3000 * turn]


def test_rnd_traffic(pair):
    """A long random mixture of operations keeps both memories as a model says."""
    client, server = pair(size=1 << 16, recv_wr=64)
    rng = random.Random(11)
    mirror = {client: bytearray(pattern(1 << 16, 1)), server: bytearray(pattern(1 << 16, 2))}
    for side, content in mirror.items():
        side.region.write(bytes(content))
    for turn in range(600):
        one, other = rng.sample([client, server], 2)
        here, there, size = (rng.randrange(1 << 15), rng.randrange(1 << 15),
                             rng.randrange(1 << 15))
        opcode = rng.choice([SEND, SEND_IMM, WRITE, READ])
        if opcode in (SEND, SEND_IMM):
            other.recv(other.region.sge(there, size))
        one.send(opcode, one.region.sge(here, size), to=other.region.at(there), wr_id=turn)
        assert poll_ok(one.scq).wr_id == turn
        if opcode in (SEND, SEND_IMM):
            assert poll_ok(other.rcq).byte_len == size
        if opcode == READ:
            mirror[one][here:here + size] = mirror[other][there:there + size]
        else:
            mirror[other][there:there + size] = mirror[one][here:here + size]
    for side, content in mirror.items():
        assert side.region.read(1 << 16) == bytes(content)


def test_both_ends_fill_their_queues(pair):
    """Both post before either polls: nothing is lost, nothing is stuck."""
    client, server = pair()
    for end, peer in ((client, server), (server, client)):
        for number in range(60):
            peer.recv(wr_id=number)
    for number in range(60):
        for end in (client, server):
            end.send(SEND, end.region.sge(0, number), wr_id=number)
    for end in (client, server):
        assert [wc.wr_id for wc in poll(end.scq, 60)] == list(range(60))
        assert [wc.byte_len for wc in poll_ok(end.rcq, 60)] == list(range(60))


def test_atomic_write(pair):
    """By ibv_post_send, from an SGE or inline; it needs data. (rdma-core's tests use the builder.)"""
    if not hasattr(e, 'IBV_WR_ATOMIC_WRITE'):
        pytest.skip('this libibverbs has no atomic writes')
    client, server = pair()
    client.region.write(b'12345678abcdefgh')
    client.send(e.IBV_WR_ATOMIC_WRITE, client.region.sge(0, 8), to=server.region.at(16))
    assert poll_ok(client.scq).opcode == e.IBV_WC_ATOMIC_WRITE
    client.send(e.IBV_WR_ATOMIC_WRITE, client.region.sge(8, 8), to=server.region.at(24),
                flags=SIGNALED | e.IBV_SEND_INLINE)
    poll_ok(client.scq)
    assert server.region.read(24, 8) == bytes(8) + b'12345678abcdefgh'
    with refused(errno.EINVAL):
        client.send(e.IBV_WR_ATOMIC_WRITE, to=server.region.at(16))
    client.send(e.IBV_WR_ATOMIC_WRITE, client.region.sge(0, 8), to=server.region.at(17))
    poll_error(client.scq, e.IBV_WC_REM_INV_REQ_ERR, 'ATOMIC_UNALIGNED')
