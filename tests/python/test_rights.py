# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
What must not be reached is not: each kind of bad access, its status and reason at both ends,
the event at the responder, the states afterwards, and memory as it was before.
"""
import pytest
import verbs_enums as e
from pyverbs import mem_alloc
from pyverbs.pd import PD
from pyverbs.wr import SGE

from harness import (APIS, CMP_SWP, FETCH_ADD, FLUSH, FULL, LOCAL_WRITE, PAGE, RC, READ,
                     REMOTE_ATOMIC, REMOTE_READ, REMOTE_WRITE, SEND, UC, WRITE, WRITE_IMM, connect,
                     pattern, poll, poll_error, poll_nothing, poll_ok)

ERR, RTS = e.IBV_QPS_ERR, e.IBV_QPS_RTS
REM_ACCESS, REM_INV_REQ = e.IBV_WC_REM_ACCESS_ERR, e.IBV_WC_REM_INV_REQ_ERR
REM_OP, LOC_PROT = e.IBV_WC_REM_OP_ERR, e.IBV_WC_LOC_PROT_ERR
ACCESS_EVENT, REQUEST_EVENT = e.IBV_EVENT_QP_ACCESS_ERR, e.IBV_EVENT_QP_REQ_ERR
NAMES = {WRITE: 'WRITE', WRITE_IMM: 'WRITE_IMM', READ: 'READ', CMP_SWP: 'CMP_SWP',
         FETCH_ADD: 'FETCH_ADD', SEND: 'SEND'}
ONE_SIDED = pytest.mark.parametrize('opcode', [WRITE, WRITE_IMM, READ, CMP_SWP, FETCH_ADD],
                                    ids=NAMES.get)
RIGHT = {WRITE: REMOTE_WRITE, WRITE_IMM: REMOTE_WRITE, READ: REMOTE_READ, CMP_SWP: REMOTE_ATOMIC,
         FETCH_ADD: REMOTE_ATOMIC}
RIGHT_NAME = {REMOTE_WRITE: 'REMOTE_WRITE', REMOTE_READ: 'REMOTE_READ',
              REMOTE_ATOMIC: 'REMOTE_ATOMIC'}


def refused_by_peer(client, server, opcode, to, status, reason, event, length=8, sge=None,
                    **options):
    """
    The operation fails at the requester, the responder hears of it, by the receive of a write with
    immediate data (posted as 5) or else by the event, and nothing is changed.
    """
    by_receive = opcode == WRITE_IMM and status == REM_ACCESS
    if by_receive:
        server.recv(wr_id=5)
    before = client.region.read(client.region.length), server.region.read(server.region.length)
    client.send(opcode, sge or client.region.sge(0, length), to=to, wr_id=1, **options)
    client.send(WRITE, client.region.sge(0, 1), to=server.region.at(), wr_id=2, flags=0)
    wc = poll_error(client.scq, status, reason)
    assert wc.wr_id == 1
    wc = poll(client.scq)[0]
    assert (wc.wr_id, wc.status) == (2, FLUSH)
    if by_receive:
        assert poll_error(server.rcq, e.IBV_WC_LOC_ACCESS_ERR, reason).wr_id == 5
    elif event is not None:
        assert server.device.event() == event
    assert (client.state(), server.state()) == (ERR, ERR)
    client.device.no_event(0.01)
    server.device.no_event(0.01)
    after = client.region.read(client.region.length), server.region.read(server.region.length)
    assert before == after


@pytest.fixture
def two(pair):
    client, server = pair(size=PAGE)
    client.region.write(pattern(PAGE, 1))
    server.region.write(pattern(PAGE, 2))
    return client, server


# ------------------------------------------------------------------------ rights missing

@ONE_SIDED
@pytest.mark.parametrize('api', APIS)
def test_region_lacks_right(pair, opcode, api):
    """The region grants everything but this: remote access error."""
    right = RIGHT[opcode]
    client, server = pair(size=PAGE, ex=api == 'wr')
    weak = server.new_region(PAGE, FULL & ~right)
    refused_by_peer(client, server, opcode, weak.at(), REM_ACCESS, 'MR_NO_' + RIGHT_NAME[right],
                    ACCESS_EVENT, api=api)
    assert weak.read(PAGE) == bytes(PAGE)


@ONE_SIDED
@pytest.mark.parametrize('api', APIS)
def test_qp_lacks_right(pair, opcode, api):
    """The responder's QP grants everything but this: the request is invalid."""
    right = RIGHT[opcode]
    client, server = pair(size=PAGE, ex=api == 'wr',
                          server_has={'qp_access_flags': FULL & ~right})
    refused_by_peer(client, server, opcode, server.region.at(), REM_INV_REQ,
                    'QP_NO_' + RIGHT_NAME[right], REQUEST_EVENT, api=api)


@ONE_SIDED
def test_only_this_right(pair, opcode):
    """The one right that an operation needs is enough, at region and QP."""
    right = RIGHT[opcode]
    client, server = pair(server_has={'qp_access_flags': right})
    needs_local = LOCAL_WRITE if right != REMOTE_READ else 0
    target = server.new_region(PAGE, right | needs_local)
    server.recv()
    client.send(opcode, client.region.sge(0, 8), to=target.at())
    poll_ok(client.scq)


# ----------------------------------------------------------------------------- bad keys

@ONE_SIDED
@pytest.mark.parametrize('case, reason', [
    ('variant', 'KEY_STALE'), ('zero', 'KEY_UNKNOWN'), ('beyond', 'KEY_UNKNOWN'),
    ('free', 'KEY_UNKNOWN'), ('other pd', 'KEY_WRONG_PD'), ('client', 'KEY_WRONG_PD')])
def test_bad_rkey(two, keep, opcode, case, reason):
    """Keys that name nothing, something older, or something of another PD."""
    client, server = two
    address, rkey = server.region.at()
    if case == 'other pd':
        rkey = server.new_region(PAGE, pd=PD(server.ctx), memory=server.region.memory).rkey
    else:
        rkey = {'variant': rkey ^ 1, 'zero': 0, 'beyond': 0xffffff00 | rkey & 0xff,
                'free': rkey + (1000 << 8), 'client': client.region.rkey}[case]
    if case == 'client':
        address = client.region.addr
    refused_by_peer(client, server, opcode, (address, rkey), REM_ACCESS, reason, ACCESS_EVENT)


@ONE_SIDED
@pytest.mark.parametrize('case, reason', [
    ('before', 'KEY_BELOW_START'), ('past', 'KEY_PAST_END'), ('far', 'KEY_PAST_END'),
    ('end', 'KEY_PAST_END'), ('null', 'KEY_BELOW_START')])
def test_out_of_range(two, opcode, case, reason):
    """Any byte outside of the region, also a single one at either end, spoils the whole access."""
    client, server = two
    target = server.new_region(256, FULL, memory=server.region.memory)
    step = 8 if opcode in (CMP_SWP, FETCH_ADD) else 1
    address = {'before': target.addr - step, 'past': target.addr + 256 - 8 + step,
               'end': target.addr + 256, 'far': target.addr + (1 << 40), 'null': 0}[case]
    refused_by_peer(client, server, opcode, (address, target.rkey), REM_ACCESS, reason,
                    ACCESS_EVENT)


@pytest.mark.parametrize('opcode', [WRITE, READ], ids=NAMES.get)
def test_wrapping_range(two, opcode):
    """An address so high that its end is past 2^64."""
    client, server = two
    refused_by_peer(client, server, opcode, ((1 << 64) - 4, server.region.rkey), REM_ACCESS,
                    'KEY_WRAPS', ACCESS_EVENT)


@pytest.mark.parametrize('opcode', [WRITE, READ], ids=NAMES.get)
@pytest.mark.parametrize('length', [2, 5000, 1 << 20, 3 << 20])
def test_nothing_of_a_bad_message_is_done(pair, opcode, length):
    """A message that goes one byte too far moves no byte at all, however long it is."""
    client, server = pair(size=length)
    client.region.write(pattern(length, 1))
    server.region.write(pattern(length, 2))
    refused_by_peer(client, server, opcode, server.region.at(1), REM_ACCESS, 'KEY_PAST_END',
                    ACCESS_EVENT, length=length)


@ONE_SIDED
def test_up_to_the_last_byte(two, opcode):
    """The first and the last byte of a region can be reached."""
    client, server = two
    for place in (0, PAGE - 8):
        server.recv()
        client.send(opcode, client.region.sge(0, 8), to=server.region.at(place))
        poll_ok(client.scq)


@pytest.mark.private_memory('what was moved into a file is there when its owner has unmapped it, as with a NIC')
def test_memory_that_has_gone(pair):
    """Pages that were unmapped after registration: an error with its reason, no signal."""
    for opcode in (WRITE, READ, FETCH_ADD):
        client, server = pair()
        target = server.new_region(2 * PAGE)
        mem_alloc.munmap(target.addr, 2 * PAGE)
        target.memory.addr = 0
        client.send(opcode, client.region.sge(0, 8), to=target.at())
        poll_error(client.scq, REM_ACCESS, 'PAGE_NOT_MAPPED')
        assert server.device.event() == ACCESS_EVENT


@pytest.mark.private_memory('what was moved into a file is there when its owner has unmapped it, as with a NIC')
def test_local_memory_that_has_gone(pair):
    """The same for local buffers: of a send, of a read, of a receive. (What who polls copies is a
    signal of the program: see test_slot_data.py.)"""
    for opcode in (SEND, WRITE, READ):
        client, server = pair()
        gone = client.new_region(PAGE)
        sge = gone.sge(0, 65)
        mem_alloc.munmap(gone.addr, PAGE)
        gone.memory.addr = 0
        server.recv()
        client.send(opcode, sge, to=server.region.at())
        poll_error(client.scq, LOC_PROT, 'PAGE_NOT_MAPPED')
    client, server = pair()
    gone = server.new_region(PAGE)
    server.recv(gone.sge())
    mem_alloc.munmap(gone.addr, PAGE)
    gone.memory.addr = 0
    client.send(SEND, client.region.sge(0, 65))
    poll_error(server.rcq, LOC_PROT, 'PAGE_NOT_MAPPED')
    poll_error(client.scq, REM_OP, 'PAGE_NOT_MAPPED')


# ---------------------------------------------------------------------------- local keys

@pytest.mark.parametrize('case, reason', [
    ('variant', 'KEY_STALE'), ('zero', 'KEY_UNKNOWN'), ('server', 'KEY_WRONG_PD'),
    ('before', 'KEY_BELOW_START'), ('past', 'KEY_PAST_END')])
@pytest.mark.parametrize('opcode', [SEND, WRITE, READ, FETCH_ADD], ids=NAMES.get)
def test_bad_local_buffer(two, opcode, case, reason):
    """A bad SGE is the requester's own error; its peer does not hear of it."""
    client, server = two
    address, length, lkey = client.region.addr, 8, client.region.lkey
    if case == 'before':
        address -= 1
    elif case == 'past':
        address += PAGE - 7
    else:
        lkey = {'variant': lkey ^ 0x80, 'zero': 0, 'server': server.region.lkey}[case]
        if case == 'server':
            address = server.region.addr
    server.recv()
    client.send(opcode, SGE(address, length, lkey), to=server.region.at(), wr_id=1)
    poll_error(client.scq, LOC_PROT, reason)
    assert client.state() == ERR
    poll_nothing(server.rcq)
    server.device.no_event(0.01)
    assert server.state() == RTS


def test_second_sge_is_checked(two):
    """Each SGE counts, not the first one alone."""
    client, server = two
    server.recv()
    client.send(SEND, client.region.sge(0, 8), SGE(client.region.addr, 8, client.region.lkey ^ 1))
    poll_error(client.scq, LOC_PROT, 'KEY_STALE')


@pytest.mark.parametrize('opcode', [READ, FETCH_ADD, CMP_SWP], ids=NAMES.get)
def test_response_into_read_only(pair, opcode):
    """What a READ or an atomic brings goes only where there is LOCAL_WRITE."""
    client, server = pair()
    weak = client.new_region(PAGE, REMOTE_READ)
    client.send(opcode, weak.sge(0, 8), to=server.region.at())
    poll_error(client.scq, LOC_PROT, 'MR_NO_LOCAL_WRITE')
    assert weak.read(8) == bytes(8)


def test_send_from_read_only(pair):
    """To send from a region takes no right."""
    client, server = pair()
    weak = client.new_region(PAGE, 0)
    weak.write(pattern(100))
    server.recv()
    client.send(SEND, weak.sge(0, 100))
    client.send(WRITE, weak.sge(0, 100), to=server.region.at(1000))
    poll_ok(client.scq, 2)
    poll_ok(server.rcq)
    assert server.region.read(100) == server.region.read(100, 1000) == pattern(100)


# ----------------------------------------------------------------------- receive buffers

@pytest.mark.parametrize('case, reason', [
    ('other pd', 'KEY_WRONG_PD'), ('variant', 'KEY_STALE'), ('zero', 'KEY_UNKNOWN'),
    ('past', 'KEY_PAST_END'), ('read only', 'MR_NO_LOCAL_WRITE')])
def test_bad_receive_buffer(two, keep, case, reason):
    """The receive completes with a protection error, the sender hears of a remote failure."""
    client, server = two
    address, length, lkey = server.region.addr, 64, server.region.lkey
    if case == 'other pd':
        lkey = server.new_region(PAGE, pd=PD(server.ctx), memory=server.region.memory).lkey
    elif case == 'read only':
        lkey = server.new_region(PAGE, REMOTE_READ, memory=server.region.memory).lkey
    elif case == 'past':
        address += PAGE - 63
    else:
        lkey = lkey ^ 1 if case == 'variant' else 0
    server.recv(SGE(address, length, lkey), wr_id=7)
    server.recv(wr_id=9)
    client.send(SEND, client.region.sge(0, 64), wr_id=3)
    wc = poll_error(server.rcq, LOC_PROT, reason)
    assert wc.wr_id == 7
    assert (poll(server.rcq)[0].status, client.state()) == (FLUSH, ERR)
    assert poll_error(client.scq, REM_OP, reason).wr_id == 3
    assert server.state() == ERR
    server.device.no_event(0.01)  # the completion has said it
    assert server.region.read(PAGE) == pattern(PAGE, 2)


@pytest.mark.parametrize('opcode', [SEND, e.IBV_WR_SEND_WITH_IMM])
@pytest.mark.parametrize('size, room', [(65, 64), (1, 0), (100000, 65535)])
def test_message_too_long(pair, opcode, size, room):
    """A message that is longer than the receive's buffer."""
    client, server = pair(size=100001)
    server.recv(server.region.sge(0, room), wr_id=7)
    client.send(opcode, client.region.sge(0, size))
    assert poll_error(server.rcq, e.IBV_WC_LOC_LEN_ERR, 'RECV_TOO_SHORT').wr_id == 7
    poll_error(client.scq, REM_INV_REQ, 'RECV_TOO_SHORT')
    assert (client.state(), server.state()) == (ERR, ERR)
    assert server.region.read(1, room) == b'\0'


# ------------------------------------------------------------------- READ and atomic rules

@pytest.mark.parametrize('opcode', [CMP_SWP, FETCH_ADD], ids=NAMES.get)
@pytest.mark.parametrize('offset', [1, 4, 7])
def test_unaligned_atomic(two, opcode, offset):
    """The remote address of an atomic is a multiple of 8."""
    client, server = two
    refused_by_peer(client, server, opcode, server.region.at(offset), REM_INV_REQ,
                    'ATOMIC_UNALIGNED', REQUEST_EVENT)


@pytest.mark.parametrize('opcode', [CMP_SWP, FETCH_ADD], ids=NAMES.get)
@pytest.mark.parametrize('length', [0, 4, 7, 9, 16])
def test_atomic_length(two, opcode, length):
    """The local buffer of an atomic is 8 bytes."""
    client, server = two
    client.send(opcode, client.region.sge(0, length), to=server.region.at())
    poll_error(client.scq, e.IBV_WC_LOC_LEN_ERR, 'ATOMIC_BAD_LENGTH')
    assert server.region.read(PAGE) == pattern(PAGE, 2)
    assert server.state() == RTS


@pytest.mark.parametrize('opcode', [READ, CMP_SWP, FETCH_ADD], ids=NAMES.get)
def test_responder_has_no_resources(pair, opcode):
    """max_dest_rd_atomic 0: the responder takes neither reads nor atomics, but writes."""
    client, server = pair(size=PAGE, server_has={'max_dest_rd_atomic': 0})
    client.send(WRITE, client.region.sge(0, 8), to=server.region.at())
    poll_ok(client.scq)
    refused_by_peer(client, server, opcode, server.region.at(), REM_INV_REQ, 'RESP_NO_RD_ATOMIC',
                    REQUEST_EVENT)


@pytest.mark.parametrize('opcode', [READ, CMP_SWP, FETCH_ADD], ids=NAMES.get)
def test_requester_may_not_read(pair, opcode):
    """max_rd_atomic 0: the requester's own error, and nothing is sent."""
    client, server = pair(client_has={'max_rd_atomic': 0})
    client.send(opcode, client.region.sge(0, 8), to=server.region.at())
    poll_error(client.scq, e.IBV_WC_LOC_QP_OP_ERR, 'READ_NOT_ENABLED')
    assert (client.state(), server.state()) == (ERR, RTS)


@pytest.mark.parametrize('limit', [1, 2, 16])
def test_more_reads_than_resources(pair, limit):
    """Many reads and atomics posted at once; the requester keeps to what was agreed."""
    client, server = pair(client_has={'max_rd_atomic': limit},
                          server_has={'max_dest_rd_atomic': limit})
    server.region.write(pattern(4096))
    for number in range(60):
        client.send(READ, client.region.sge(64 * number, 64), to=server.region.at(64 * number))
    poll_ok(client.scq, 60)
    assert client.region.read(60 * 64) == pattern(4096)[:60 * 64]


# ------------------------------------------------------------------------------------ UC

@pytest.mark.parametrize('case', ['qp', 'region', 'key', 'range'])
def test_uc_drops(pair, case):
    """On UC the sender never hears of it: its send succeeds, nothing is changed, all goes on."""
    rights = FULL & ~REMOTE_WRITE if case == 'qp' else FULL
    client, server = pair(UC, size=PAGE, server_has={'qp_access_flags': rights})
    client.region.write(pattern(PAGE))
    address, rkey = server.region.at()
    if case == 'region':
        rkey = server.new_region(PAGE, LOCAL_WRITE, memory=server.region.memory).rkey
    elif case == 'key':
        rkey ^= 1
    elif case == 'range':
        address += PAGE - 7
    server.recv(wr_id=1)
    for opcode in (WRITE, WRITE_IMM):
        client.send(opcode, client.region.sge(0, 8), to=(address, rkey))
        poll_ok(client.scq)
    poll_nothing(server.rcq)
    server.device.no_event(0.01)
    assert server.region.read(PAGE) == bytes(PAGE)
    assert (client.state(), server.state()) == (RTS, RTS)
    client.send(SEND, client.region.sge(0, 8))
    assert poll_ok(server.rcq).wr_id == 1


@pytest.mark.parametrize('qp_type', [RC, UC], ids=['RC', 'UC'])
def test_only_the_peer_is_heard(side, qp_type):
    """A QP takes packets of the QP that it is connected to, of no other."""
    server, peer, stranger = side(qp_type), side(qp_type), side(qp_type)
    connect(peer, server)
    stranger.attributes.update(timeout=4, retry_cnt=1)
    stranger.start(server)
    server.recv()
    stranger.send(WRITE, stranger.region.sge(0, 8), to=server.region.at())
    wc = poll(stranger.scq)[0]
    assert wc.status == (e.IBV_WC_RETRY_EXC_ERR if qp_type == RC else e.IBV_WC_SUCCESS)
    poll_nothing(server.rcq)
    assert server.region.read(8) == bytes(8)
