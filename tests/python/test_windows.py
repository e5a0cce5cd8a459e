# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
Memory windows of both types: binding, use, invalidation by either side, and everything that is
refused, with its status and reason at both ends.
"""
import errno
import os
import signal
import socket
import sys

import pytest
import verbs_enums as e
from pyverbs.cq import CQEX, CqInitAttrEx, PollCqAttr
from pyverbs.mr import MW, MWBind, MWBindInfo
from pyverbs.pd import PD
from pyverbs.wr import SGE, SendWR

import programs
from harness import (APIS, CMP_SWP, FETCH_ADD, FLUSH, FULL, LOCAL_WRITE, PAGE, RC, READ, REMOTE_ATOMIC,
                     REMOTE_READ, REMOTE_WRITE, SEND, SIGNALED, SUCCESS, UC, UD, WRITE, Side, connect,
                     eventually, is_type_2a, pattern, poll, poll_error, poll_nothing, poll_ok, refused)

MW_BIND, ZERO_BASED = e.IBV_ACCESS_MW_BIND, e.IBV_ACCESS_ZERO_BASED
REMOTE = REMOTE_READ | REMOTE_WRITE | REMOTE_ATOMIC
TYPE_1, TYPE_2 = e.IBV_MW_TYPE_1, e.IBV_MW_TYPE_2
TYPES = pytest.mark.parametrize('mw_type', [TYPE_1, TYPE_2], ids=['type1', 'type2'])
BIND, LOCAL_INV, SEND_INV = e.IBV_WR_BIND_MW, e.IBV_WR_LOCAL_INV, e.IBV_WR_SEND_WITH_INV
BIND_ERR, REM_ACCESS = e.IBV_WC_MW_BIND_ERR, e.IBV_WC_REM_ACCESS_ERR
LOC_ACCESS, LOC_PROT = e.IBV_WC_LOC_ACCESS_ERR, e.IBV_WC_LOC_PROT_ERR
RETRY = e.IBV_WC_RETRY_EXC_ERR
ONE_SIDED = {WRITE: REMOTE_WRITE, READ: REMOTE_READ, CMP_SWP: REMOTE_ATOMIC,
             FETCH_ADD: REMOTE_ATOMIC}
OPCODES = pytest.mark.parametrize('opcode', ONE_SIDED, ids=['WRITE', 'READ', 'CMP_SWP', 'FETCH_ADD'])
RIGHT_NAME = {REMOTE_WRITE: 'REMOTE_WRITE', REMOTE_READ: 'REMOTE_READ',
              REMOTE_ATOMIC: 'REMOTE_ATOMIC'}


def next_key(key, step=1):
    return key & ~0xff | (key + step) & 0xff


class Window:
    """A window of one end. Bound by its type's own means: ibv_bind_mw(), or a work request."""

    def __init__(self, side, mw_type, region=None, pd=None):
        self.side, self.type = side, mw_type
        self.region = region or side.region
        self.mw = MW(pd or side.pd, mw_type)
        self.key = self.mw.rkey
        self.base = 0

    def post(self, offset=0, length=None, access=REMOTE, api='post_send', key=None, flags=SIGNALED,
             side=None, region=None, address=None):
        """Posts the bind; offset and length are those in the region."""
        side, region = side or self.side, region or self.region
        length = region.length - offset if length is None else length
        address = region.addr + offset if address is None else address
        info = MWBindInfo(region.mr, address, length, access)
        if self.type == TYPE_1:
            side.qp.bind_mw(self.mw, MWBind(info, flags))
            self.key = self.mw.rkey
        elif api == 'wr':
            self.key = next_key(self.mw.rkey) if key is None else key
            side.qp.wr_start()
            side.qp.wr_id, side.qp.wr_flags = 0, flags
            side.qp.wr_bind_mw(self.mw, self.key, info)
            side.qp.wr_complete()
        else:
            wr = SendWR(opcode=BIND, send_flags=flags)
            wr.set_bind_wr(self.mw, info)
            side.qp.post_send(wr)
            self.key = wr.rkey
        self.base = 0 if access & ZERO_BASED else address

    def bind(self, *arguments, side=None, **options):
        self.post(*arguments, side=side, **options)
        wc = poll_ok((side or self.side).scq)
        assert wc.opcode == e.IBV_WC_BIND_MW
        return self

    def at(self, offset=0):
        """(address, rkey) for the peer."""
        return self.base + offset, self.key

    def close(self):
        self.mw.close()


def invalidate(side, key, opcode=LOCAL_INV, api='post_send', flags=SIGNALED):
    """Posts LOCAL_INV or SEND_WITH_INV."""
    if api == 'wr':
        side.qp.wr_start()
        side.qp.wr_id, side.qp.wr_flags = 0, flags
        if opcode == LOCAL_INV:
            side.qp.wr_local_inv(key)
        else:
            side.qp.wr_send_inv(key)
        side.qp.wr_complete()
    else:
        wr = SendWR(opcode=opcode, send_flags=flags)
        wr.imm_data = key
        side.qp.post_send(wr)


def use(client, opcode, to, length=8):
    client.send(opcode, client.region.sge(0, length), to=to)


def works(client, window, opcode=WRITE):
    use(client, opcode, window.at())
    poll_ok(client.scq)


def refused_at_peer(client, server, to, reason, opcode=WRITE, length=8):
    """Remote access error at the client for this reason, an event at the server, both in ERR."""
    before = server.region.read(server.region.length)
    use(client, opcode, to, length)
    poll_error(client.scq, REM_ACCESS, reason)
    assert server.device.event() == e.IBV_EVENT_QP_ACCESS_ERR
    assert (client.state(), server.state()) == (e.IBV_QPS_ERR, e.IBV_QPS_ERR)
    assert server.region.read(server.region.length) == before


def fails_here(side, reason, status=BIND_ERR):
    """The work request just posted fails at its own side, and takes the QP with it."""
    poll_error(side.scq, status, reason)
    side.send(WRITE, side.region.sge(0, 1), to=side.region.at(), wr_id=9)
    wc = poll(side.scq)[0]
    assert (wc.wr_id, wc.status) == (9, FLUSH)
    assert side.state() == e.IBV_QPS_ERR


@pytest.fixture
def ends(pair):
    """ends(api): client and server; the server's region can be bound to and grants nothing itself."""

    def make(api='post_send', qp_type=RC, **options):
        client, server = pair(qp_type, size=2 * PAGE, ex=api == 'wr', **options)
        server.region.close()
        server.region = server.new_region(2 * PAGE, LOCAL_WRITE | MW_BIND)
        client.region.write(pattern(2 * PAGE, 1))
        server.region.write(pattern(2 * PAGE, 2))
        return client, server

    return make


@pytest.fixture
def window(keep):
    return lambda *arguments, **options: keep(Window(*arguments, **options))


@pytest.fixture
def other_pair(pair, keep):
    """A second connection between the same contexts and PDs: (client, server)."""

    def make(client, server, same_pd=True):
        sides = []
        for side in (client, server):
            pd = side.pd if same_pd else keep(PD(side.ctx))
            sides.append({'device': side.device, 'pd': pd})
        return pair(size=PAGE, client=sides[0], server=sides[1])

    return make


# -------------------------------------------------------------------------- capabilities

def test_capabilities(ctx):
    attr = ctx.query_device()
    flags = attr.device_cap_flags
    assert flags & e.IBV_DEVICE_MEM_WINDOW
    assert bool(flags & e.IBV_DEVICE_MEM_WINDOW_TYPE_2B) != is_type_2a(ctx)
    assert flags & e.IBV_DEVICE_MEM_MGT_EXTENSIONS
    assert attr.max_mw >= 1024


@pytest.mark.time_limit(200)
def test_type_2a():
    """A device whose type 2 windows are of type 2A passes the same tests."""
    if os.environ.get('SIMHCA_TEST_TYPE_2A'):
        pytest.skip('this is one')
    programs.private_tests('test_windows.py', options=['--mw-type-2a'],
                           env={'SIMHCA_TEST_TYPE_2A': '1'})


def test_is_what_was_asked_for(ctx):
    assert is_type_2a(ctx) == bool(os.environ.get('SIMHCA_TEST_TYPE_2A'))


@pytest.mark.parametrize('mw_type', [0, 3, 17])
def test_no_such_type(pd, mw_type):
    with refused(errno.EINVAL):
        MW(pd, mw_type)


@TYPES
def test_fresh_window_grants_nothing(ends, window, mw_type):
    client, server = ends()
    refused_at_peer(client, server, (server.region.addr, window(server, mw_type).key),
                    'MW_NOT_BOUND')


# -------------------------------------------------------------------------- bind and use

@OPCODES
@TYPES
@pytest.mark.parametrize('api', APIS)
def test_bind_and_use(ends, window, mw_type, opcode, api):
    """Every right, through a region that grants none of them itself."""
    client, server = ends(api)
    bound = window(server, mw_type).bind(PAGE, 64, ONE_SIDED[opcode], api=api)
    server.region.write((5).to_bytes(8, sys.byteorder), PAGE)
    client.send(opcode, client.region.sge(0, 8), to=bound.at(), compare_add=5, swap=9)
    poll_ok(client.scq)
    found = int.from_bytes(server.region.read(8, PAGE), sys.byteorder)
    mine = int.from_bytes(client.region.read(8), sys.byteorder)
    ours = int.from_bytes(pattern(8, 1), sys.byteorder)
    assert (found, mine) == {WRITE: (ours, ours), READ: (5, 5), CMP_SWP: (9, 5),
                             FETCH_ADD: (10, 5)}[opcode]


def test_type1_key_moves_on(ends, window):
    """mw.rkey is the new key when the call returns; the one before it is stale after that."""
    client, server = ends()
    bound = window(server, TYPE_1)
    fresh = bound.key
    bound.bind()
    assert bound.key == next_key(fresh) == bound.mw.rkey
    works(client, bound)
    old = bound.at()
    bound.bind()
    assert bound.key == next_key(old[1])
    works(client, bound)
    refused_at_peer(client, server, old, 'KEY_STALE')


def test_type1_key_wraps(ends, window):
    """The variant has 8 bits; the index never changes."""
    client, server = ends()
    bound = window(server, TYPE_1)
    keys = set()
    for _ in range(256):
        bound.bind()
        keys.add(bound.key)
    assert len(keys) == 256 and len({key >> 8 for key in keys}) == 1
    works(client, bound)


def test_type1_rebind_moves(ends, window):
    """A bound window of type 1 is bound elsewhere at once, to other rights, too."""
    client, server = ends()
    bound = window(server, TYPE_1).bind(0, 64, REMOTE_WRITE)
    bound.bind(PAGE, 32, REMOTE_READ)
    works(client, bound, READ)
    assert client.region.read(8) == server.region.read(8, PAGE)
    refused_at_peer(client, server, bound.at(), 'MW_NO_REMOTE_WRITE')


def test_type1_unbind(ends, window):
    """Length 0 unbinds; the region can go then."""
    client, server = ends()
    bound = window(server, TYPE_1).bind()
    old = bound.at()
    bound.bind(0, 0, 0)
    refused_at_peer(client, server, old, 'KEY_STALE')


def test_type1_unbound_key(ends, window):
    client, server = ends()
    bound = window(server, TYPE_1).bind()
    bound.bind(0, 0, 0)
    refused_at_peer(client, server, (server.region.addr, bound.key), 'MW_NOT_BOUND')


def test_type1_any_qp_of_the_pd(ends, window, other_pair):
    client, server = ends()
    bound = window(server, TYPE_1).bind()
    client_2, server_2 = other_pair(client, server)
    works(client_2, bound)
    bound.bind(side=server_2)
    works(client, bound)


@pytest.mark.parametrize('api', APIS)
def test_type2_consumer_owns_variant(ends, window, api):
    """Any variant will do, the same as before, too."""
    client, server = ends('wr')
    bound = window(server, TYPE_2)
    for step in (7, 7, 0, 255):
        bound.bind(api='wr', key=next_key(bound.mw.rkey, step))
        assert bound.key == bound.mw.rkey
        works(client, bound)
        invalidate(server, bound.key, api=api)
        assert poll_ok(server.scq).opcode == e.IBV_WC_LOCAL_INV


def test_type2_same_queue_in_order(ends, window):
    """A message behind the bind may tell the peer of the key: the bind is in force by then."""
    client, server = ends()
    bound = window(server, TYPE_2)
    for _ in range(50):
        client.recv(client.region.sge(PAGE, 8))
        bound.post(flags=0)
        server.send(SEND, server.region.sge(0, 8))
        poll_ok(client.rcq)
        works(client, bound)
        invalidate(server, bound.key, flags=0)
        poll_ok(server.scq)
    poll_nothing(server.scq)


@OPCODES
def test_zero_based(ends, window, opcode):
    """A zero-based window counts from 0, wherever it lies; a byte before and after it is refused."""
    client, server = ends()
    bound = window(server, TYPE_2).bind(PAGE - 24, 48, REMOTE | ZERO_BASED)
    server.region.write(bytes(8), PAGE - 24 + 40)
    client.send(opcode, client.region.sge(0, 8), to=bound.at(40), compare_add=0, swap=1)
    poll_ok(client.scq)
    refused_at_peer(client, server, (41 if opcode in (WRITE, READ) else 48, bound.key),
                    'KEY_PAST_END', opcode)


def test_zero_based_and_type1(ends, window):
    """A window of type 1 has addresses, and its region too: ibv_bind_mw() refuses others, as with mlx5."""
    server = ends()[1]
    bound = window(server, TYPE_1)
    key = bound.mw.rkey
    with refused(errno.EINVAL):
        bound.post(access=REMOTE | ZERO_BASED)
    region = server.new_region(PAGE, FULL | MW_BIND | ZERO_BASED)
    with refused(errno.EINVAL):
        bound.post(region=region, address=0)
    assert bound.mw.rkey == key


@TYPES
def test_unreliable_connection(ends, window, mw_type):
    """UC QPs bind windows, and write through them."""
    client, server = ends(qp_type=UC)
    bound = window(server, mw_type).bind()
    works(client, bound)
    eventually(lambda: server.region.read(8) == client.region.read(8))


def test_no_windows_on_ud(side, window):
    """UD QPs have no memory operations at all."""
    one = side(UD)
    one.start()
    region = one.new_region(PAGE, LOCAL_WRITE | MW_BIND)
    for mw_type in (TYPE_1, TYPE_2):
        with refused(errno.EINVAL):
            window(one, mw_type, region).post()
    with refused(errno.EINVAL):
        invalidate(one, region.rkey)


def test_unsignaled_bind_is_silent(ends, window):
    client, server = ends()
    bound = window(server, TYPE_1)
    bound.post(flags=0)
    poll_nothing(server.scq)
    works(client, bound)


# ------------------------------------------------------------------------- access refused

@TYPES
@OPCODES
def test_window_lacks_right(ends, window, mw_type, opcode):
    """The window decides, though its region grants all."""
    client, server = ends()
    server.region = server.new_region(PAGE, FULL | MW_BIND)
    right = ONE_SIDED[opcode]
    bound = window(server, mw_type).bind(access=REMOTE & ~right)
    refused_at_peer(client, server, bound.at(), 'MW_NO_' + RIGHT_NAME[right], opcode)


@TYPES
@pytest.mark.parametrize('opcode', [WRITE, READ], ids=['WRITE', 'READ'])
@pytest.mark.parametrize('shift, reason', [(-1, 'KEY_BELOW_START'), (1, 'KEY_PAST_END')])
def test_one_byte_outside(ends, window, mw_type, opcode, shift, reason):
    client, server = ends()
    bound = window(server, mw_type).bind(512, 256)
    use(client, opcode, bound.at(), 256)
    poll_ok(client.scq)
    refused_at_peer(client, server, bound.at(shift), reason, opcode, 256)


@TYPES
def test_stale_variant(ends, window, mw_type):
    client, server = ends()
    bound = window(server, mw_type).bind()
    refused_at_peer(client, server, (bound.base, next_key(bound.key)), 'KEY_STALE')


@TYPES
def test_other_pd(ends, window, other_pair, mw_type):
    """A QP of another PD finds no way in. A window of type 2A knows nothing of PDs."""
    client, server = ends()
    bound = window(server, mw_type).bind()
    client_2, server_2 = other_pair(client, server, same_pd=False)
    reason = 'MW_OTHER_QP' if mw_type == TYPE_2 and is_type_2a(server.ctx) else 'KEY_WRONG_PD'
    refused_at_peer(client_2, server_2, bound.at(), reason)
    works(client, bound)


def test_type2_other_qp(ends, window, other_pair):
    """Nor does another QP of the PD, if the window is of type 2."""
    client, server = ends()
    bound = window(server, TYPE_2).bind()
    client_2, server_2 = other_pair(client, server)
    refused_at_peer(client_2, server_2, bound.at(), 'MW_OTHER_QP')
    works(client, bound)


@TYPES
def test_window_is_no_lkey(ends, window, mw_type):
    client, server = ends()
    bound = window(server, mw_type).bind()
    server.send(WRITE, SGE(bound.base, 8, bound.key), to=client.region.at())
    fails_here(server, 'KEY_NOT_LOCAL', LOC_PROT)


# --------------------------------------------------------------------------- bind refused

@pytest.mark.parametrize('api', ['bind', *APIS])
@pytest.mark.parametrize('case, reason', [
    ('no MW_BIND', 'MR_NO_MW_BIND'), ('write', 'BIND_NEEDS_LOCAL_WRITE'),
    ('atomic', 'BIND_NEEDS_LOCAL_WRITE'), ('below', 'KEY_BELOW_START'),
    ('above', 'KEY_PAST_END'), ('wraps', 'KEY_WRAPS')])
def test_bind_refused(ends, window, api, case, reason):
    """What the region does not allow fails in the completion; the window is not bound."""
    client, server = ends(api)
    access = {'no MW_BIND': LOCAL_WRITE, 'write': MW_BIND, 'atomic': MW_BIND}.get(
        case, LOCAL_WRITE | MW_BIND)
    region = server.new_region(PAGE, access)
    right = {'write': REMOTE_WRITE, 'atomic': REMOTE_ATOMIC}.get(case, REMOTE_READ)
    bound = window(server, TYPE_1 if api == 'bind' else TYPE_2, region)
    address = {'below': region.addr - 1, 'above': region.addr + PAGE - 63,
               'wraps': (1 << 64) - 32}.get(case, region.addr)
    bound.post(0, 64, right, api=api, address=address)
    fails_here(server, reason)
    region.mr.close()  # nothing counts against it


@TYPES
def test_read_only_region_can_be_bound_for_reading(ends, window, mw_type):
    client, server = ends()
    region = server.new_region(PAGE, MW_BIND)
    region.write(pattern(8, 5))
    works(client, window(server, mw_type, region).bind(access=REMOTE_READ), READ)
    assert client.region.read(8) == pattern(8, 5)


@pytest.mark.parametrize('mw_type, api', [(TYPE_1, 'post_send'), *((TYPE_2, api) for api in APIS)])
def test_length(ends, window, mw_type, api):
    """No window has more than 2 GiB, as with mlx5; whether the region has so many is another question."""
    client, server = ends(api)
    bound = window(server, mw_type)
    key = bound.mw.rkey
    with refused(errno.EOPNOTSUPP):
        bound.post(0, (1 << 31) + 1, api=api)
    assert bound.mw.rkey == key
    works(client, Window(server, mw_type).bind(api=api))
    bound.post(0, 1 << 31, api=api)
    fails_here(server, 'KEY_PAST_END')


@pytest.mark.parametrize('api', APIS)
def test_type2_must_be_free(ends, window, api):
    client, server = ends(api)
    bound = window(server, TYPE_2).bind(api=api)
    bound.post(api=api)
    fails_here(server, 'BIND_NOT_FREE')


@pytest.mark.parametrize('api', APIS)
def test_type2_needs_length(ends, window, api):
    client, server = ends(api)
    window(server, TYPE_2).post(0, 0, api=api)
    fails_here(server, 'BIND_NO_LENGTH')


@pytest.mark.parametrize('given', [0x12, 0xffffff34])
def test_type2_key_of_another_index(ends, window, given):
    """The low 8 bits are the consumer's, the index is the window's; mw.rkey is the key at once."""
    client, server = ends('wr')
    bound = window(server, TYPE_2)
    fresh = bound.mw.rkey
    bound.post(api='wr', key=given)
    bound.key = bound.mw.rkey
    assert bound.key == fresh & ~0xff | given & 0xff
    poll_ok(server.scq)
    works(client, bound)


def test_type2_by_the_verb(ends, window):
    """ibv_bind_mw() is for type 1."""
    client, server = ends()
    bound = window(server, TYPE_2)
    info = MWBindInfo(server.region.mr, server.region.addr, PAGE, REMOTE)
    with refused(errno.EINVAL):
        server.qp.bind_mw(bound.mw, MWBind(info, SIGNALED))
    poll_nothing(server.scq)


@pytest.mark.parametrize('api', APIS)
def test_type1_by_work_request(ends, window, api):
    """And work requests are for type 2. The work requests beside it are as they would be alone."""
    client, server = ends(api)
    bound = window(server, TYPE_1)
    bound.type = TYPE_2
    with refused(errno.EINVAL):
        bound.post(api=api)
    poll_nothing(server.scq)
    works(client, Window(server, TYPE_2).bind(api=api))


@pytest.mark.parametrize('access', [MW_BIND, 1 << 7, 1 << 15], ids=hex)
@TYPES
def test_bad_access_flags(ends, window, mw_type, access):
    """Flags that no window has are seen when it is posted; the key stays."""
    client, server = ends()
    bound = window(server, mw_type)
    key = bound.mw.rkey
    with refused(errno.EINVAL):
        bound.post(access=REMOTE_READ | access)
    assert bound.mw.rkey == key
    poll_nothing(server.scq)


@TYPES
@pytest.mark.parametrize('api', APIS)
@pytest.mark.parametrize('case', ['window', 'region', 'qp'])
def test_objects_of_different_pds(ends, window, other_pair, keep, mw_type, case, api):
    """
    Window, region and QP must be of one PD. The post takes it, as it does on ConnectX, and the
    completion says so; but for what libibverbs refuses by itself, a region of another PD than the
    window of type 1.
    """
    client, server = ends(api)
    other = keep(PD(server.ctx))
    side, region, pd = server, server.region, server.pd
    if case == 'window':
        pd = other
    elif case == 'region':
        region = server.new_region(PAGE, LOCAL_WRITE | MW_BIND, pd=other)
    elif api == 'post_send':
        side = other_pair(client, server, same_pd=False)[1]
    else:
        return  # other_pair() makes QPs without builders
    bound = window(side, mw_type, region, pd=pd)
    key = bound.mw.rkey
    if mw_type == TYPE_1 and case != 'qp':
        with refused(errno.EPERM):
            bound.post(api=api)
        assert bound.mw.rkey == key
        poll_nothing(side.scq)
        works(client, Window(server, TYPE_1).bind())
        return
    bound.post(api=api)
    assert bound.mw.rkey == next_key(key)
    fails_here(side, 'KEY_WRONG_PD')


def test_objects_of_another_context(ends, window):
    """The same, as no PD belongs to two contexts."""
    client, server = ends()
    bound = window(client, TYPE_2, server.region)
    bound.post(side=server)
    fails_here(server, 'KEY_WRONG_PD')
    bound.post(side=client)
    fails_here(client, 'KEY_WRONG_PD')


@TYPES
def test_inline_bind(ends, window, mw_type):
    client, server = ends()
    with refused(errno.EINVAL):
        window(server, mw_type).post(flags=SIGNALED | e.IBV_SEND_INLINE)


@TYPES
def test_bind_in_reset(side, window, mw_type):
    one = side(RC)
    region = one.new_region(PAGE, LOCAL_WRITE | MW_BIND)
    bound = window(one, mw_type, region)
    key = bound.mw.rkey
    with refused(errno.EINVAL):
        bound.post()
    assert bound.mw.rkey == key


def test_bind_takes_a_slot(ends, window):
    """A full send queue: ENOMEM, and the key does not move on."""
    client, server = ends()
    bound = window(server, TYPE_1)
    server.to(e.IBV_QPS_SQD)
    with refused(errno.ENOMEM):
        for _ in range(server.cap.max_send_wr + 1):
            key = bound.mw.rkey
            bound.post()
    assert bound.mw.rkey == key
    server.to(e.IBV_QPS_RTS)
    poll_ok(server.scq, server.cap.max_send_wr)
    bound.bind()


def test_batch_is_all_or_nothing(ends, window):
    """ibv_wr_*: a bind that cannot be posted takes the whole batch back."""
    client, server = ends('wr')
    good, bad = window(server, TYPE_2), window(server, TYPE_1)
    info = MWBindInfo(server.region.mr, server.region.addr, PAGE, REMOTE)
    qp = server.qp
    qp.wr_start()
    qp.wr_id, qp.wr_flags = 1, SIGNALED
    qp.wr_bind_mw(good.mw, next_key(good.mw.rkey), info)
    qp.wr_bind_mw(bad.mw, next_key(bad.mw.rkey), info)
    qp.wr_local_inv(next_key(good.mw.rkey))
    key = good.mw.rkey
    with refused(errno.EINVAL):
        qp.wr_complete()
    assert good.mw.rkey == key
    poll_nothing(server.scq)
    works(client, good.bind(api='wr'))


def test_setters_after_a_bind_say_nothing(ends, window):
    """SGEs after a bind or an invalidation have nothing to belong to."""
    client, server = ends('wr')
    bound = window(server, TYPE_2)
    info = MWBindInfo(server.region.mr, server.region.addr, PAGE, REMOTE)
    key = next_key(bound.mw.rkey)
    server.qp.wr_start()
    server.qp.wr_id, server.qp.wr_flags = 1, SIGNALED
    server.qp.wr_bind_mw(bound.mw, key, info)
    server.qp.wr_set_sge(SGE(1, 2, 3))
    server.qp.wr_local_inv(key)
    server.qp.wr_set_inline_data_list(0, [])
    server.qp.wr_complete()
    assert [wc.opcode for wc in poll_ok(server.scq, 2)] == [e.IBV_WC_BIND_MW, e.IBV_WC_LOCAL_INV]


# ---------------------------------------------------------------------------- invalidation

@pytest.mark.parametrize('api', APIS)
def test_local_invalidate(ends, window, api):
    client, server = ends(api)
    bound = window(server, TYPE_2).bind(api=api)
    works(client, bound)
    invalidate(server, bound.key, api=api)
    assert poll_ok(server.scq).opcode == e.IBV_WC_LOCAL_INV
    refused_at_peer(client, server, bound.at(), 'MW_NOT_BOUND')


@pytest.mark.parametrize('api', APIS)
def test_send_with_invalidate(ends, window, api):
    """The receiver sees which key went; the message arrives."""
    client, server = ends(api)
    bound = window(server, TYPE_2).bind(api=api)
    works(client, bound)
    server.recv(server.region.sge(PAGE, 64))
    if api == 'wr':
        qp = client.qp
        qp.wr_start()
        qp.wr_id, qp.wr_flags = 1, SIGNALED
        qp.wr_send_inv(bound.key)
        qp.wr_set_sge(client.region.sge(0, 64))
        qp.wr_complete()
    else:
        wr = SendWR(1, SEND_INV, 1, 0, [client.region.sge(0, 64)], SIGNALED)
        wr.imm_data = bound.key
        client.qp.post_send(wr)
    wc = poll_ok(server.rcq)
    assert (wc.opcode, wc.byte_len, wc.imm_data) == (e.IBV_WC_RECV, 64, bound.key)
    assert wc.wc_flags == e.IBV_WC_WITH_INV
    assert poll_ok(client.scq).opcode == e.IBV_WC_SEND
    assert server.region.read(64, PAGE) == client.region.read(64)
    refused_at_peer(client, server, bound.at(), 'MW_NOT_BOUND')


def test_invalidated_rkey_of_extended_cq(ends, window, side, open_device):
    """The extended CQ has the key where immediate data are."""
    attr = CqInitAttrEx(cqe=16, wc_flags=e.IBV_WC_STANDARD_FLAGS)
    cq = CQEX(open_device.ctx, attr)
    client, server = side(RC, size=PAGE), side(RC, size=PAGE, device=open_device, rcq=cq)
    connect(client, server)
    region = server.new_region(PAGE, LOCAL_WRITE | MW_BIND)
    bound = window(server, TYPE_2, region).bind()
    server.recv()
    invalidate(client, bound.key, SEND_INV)
    poll_ok(client.scq)
    eventually(lambda: cq.start_poll(PollCqAttr()) == 0)
    assert cq.status == SUCCESS
    assert (cq.read_opcode(), cq.read_wc_flags()) == (e.IBV_WC_RECV, e.IBV_WC_WITH_INV)
    assert cq.read_imm_data() in (bound.key, socket.ntohl(bound.key))  # pyverbs may convert it
    cq.end_poll()
    server.qp.close()
    cq.close()


def test_bind_again_after_each_way_out(ends, window, keep):
    """LOCAL_INV, SEND_WITH_INV, reset of the QP: the window is free again after each."""
    client, server = ends()
    bound = window(server, TYPE_2)
    works(client, bound.bind())
    invalidate(server, bound.key)
    poll_ok(server.scq)
    works(client, bound.bind())
    server.recv()
    invalidate(client, bound.key, SEND_INV)
    poll_ok(client.scq)
    poll_ok(server.rcq)
    works(client, bound.bind())
    client.to(e.IBV_QPS_RESET)
    server.to(e.IBV_QPS_RESET)
    connect(client, server)
    works(client, bound.bind())


@pytest.mark.parametrize('opcode', [LOCAL_INV, SEND_INV], ids=['local', 'remote'])
@pytest.mark.parametrize('case, reason', [
    ('twice', 'MW_NOT_BOUND'), ('stale', 'KEY_STALE'), ('unknown', 'KEY_UNKNOWN'),
    ('type 1', 'INV_NOT_ALLOWED'), ('region', 'INV_NOT_ALLOWED'), ('other PD', 'KEY_WRONG_PD')])
def test_invalidation_refused(ends, window, keep, opcode, case, reason):
    """
    At its own side. If a message carried it the message arrives, the receiver's QP fails, and the
    sender has no answer. The key is as it was.
    """
    client, server = ends(client_has={'timeout': 4, 'retry_cnt': 1})
    bound = window(server, TYPE_1 if case == 'type 1' else TYPE_2).bind()
    key = bound.key
    if case == 'twice':
        invalidate(server, key)
        poll_ok(server.scq)
    elif case == 'stale':
        key = next_key(key)
    elif case == 'unknown':
        key += 1000 << 8
    elif case == 'region':
        key = server.region.rkey
    elif case == 'other PD':
        key = server.new_region(PAGE, pd=keep(PD(server.ctx))).rkey
    if opcode == LOCAL_INV:
        invalidate(server, key)
        fails_here(server, reason)
        return
    server.recv()
    invalidate(client, key, SEND_INV)
    poll_error(client.scq, RETRY, reason)
    wc = poll_error(server.rcq, LOC_ACCESS, reason)
    assert not wc.wc_flags & e.IBV_WC_WITH_INV
    assert (client.state(), server.state()) == (e.IBV_QPS_ERR, e.IBV_QPS_ERR)
    server.device.no_event(0.01)


@pytest.mark.parametrize('opcode', [LOCAL_INV, SEND_INV], ids=['local', 'remote'])
def test_invalidation_by_another_qp(ends, window, other_pair, opcode):
    """A window of type 2 is invalidated by the QP that bound it, or by that one's peer."""
    client, server = ends()
    bound = window(server, TYPE_2).bind()
    client_2, server_2 = other_pair(client, server)
    if opcode == LOCAL_INV:
        invalidate(server_2, bound.key)
        poll_error(server_2.scq, BIND_ERR, 'MW_OTHER_QP')
    else:
        server_2.recv()
        invalidate(client_2, bound.key, SEND_INV)
        poll_error(client_2.scq, RETRY, 'MW_OTHER_QP')
        poll_error(server_2.rcq, LOC_ACCESS, 'MW_OTHER_QP')
    works(client, bound)


# ------------------------------------------------------------------------------ life cycle

@TYPES
def test_dealloc_while_bound(ends, window, mw_type):
    """Is legal and revokes."""
    client, server = ends()
    bound = Window(server, mw_type).bind()
    works(client, bound)
    bound.close()
    refused_at_peer(client, server, bound.at(), 'KEY_UNKNOWN')


@TYPES
def test_region_is_busy_while_bound(ends, window, mw_type):
    """EBUSY as long as one window of several is bound; the region works on, the count is right."""
    client, server = ends()
    windows = [Window(server, mw_type).bind() for _ in range(3)]
    for bound in windows:
        with refused(errno.EBUSY):
            server.region.mr.close()
        with refused(errno.EBUSY):
            server.region.mr.rereg(e.IBV_REREG_MR_CHANGE_ACCESS, access=LOCAL_WRITE)
        works(client, bound)
        bound.close()
    server.region.mr.close()


def test_region_is_free_after_each_way_out(ends, window, other_pair, keep):
    """Unbound, invalidated, deallocated, QP destroyed: nothing counts any more."""
    client, server = ends()

    def fresh():
        return server.new_region(PAGE, LOCAL_WRITE | MW_BIND)

    region = fresh()
    window(server, TYPE_1, region).bind().bind(0, 0, 0)
    region.mr.close()
    region = fresh()
    moved = window(server, TYPE_1, region).bind()
    moved.bind(region=server.region)
    region.mr.close()
    region = fresh()
    invalidate(server, window(server, TYPE_2, region).bind().key)
    poll_ok(server.scq)
    region.mr.close()
    region = fresh()
    server_2 = other_pair(client, server)[1]
    left = window(server_2, TYPE_2, region).bind()
    with refused(errno.EBUSY):
        region.mr.close()
    server_2.qp.close()
    region.mr.close()
    assert left.mw.rkey


def test_type1_outlives_its_qp(ends, window, other_pair):
    """A window of type 1 is the PD's: it stays bound when the QP that bound it is gone."""
    client, server = ends()
    client_2, server_2 = other_pair(client, server)
    bound = window(server, TYPE_1).bind(side=server_2)
    server_2.qp.close()
    works(client, bound)


def test_nothing_is_left_of_a_dead_process(ctx):
    """kill -9 while windows are bound: the device has no more objects than before."""
    before = _counts(ctx)
    read_end, write_end = os.pipe()
    child = os.fork()
    if not child:
        try:
            _bind_and_wait(write_end)
        finally:
            os._exit(1)
    os.close(write_end)
    assert os.read(read_end, 1) == b'x'
    os.close(read_end)
    assert _counts(ctx)['mws'] == before['mws'] + 2
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    eventually(lambda: _counts(ctx) == before)


def _counts(ctx):
    return programs.device_status(ctx.name)['counts']


def _bind_and_wait(write_end):
    client, server = Side(RC, size=PAGE), Side(RC, size=PAGE)
    connect(client, server)
    server.region = server.new_region(PAGE, LOCAL_WRITE | MW_BIND)
    kept = [Window(server, TYPE_1).bind(), Window(server, TYPE_2).bind()]
    assert kept
    os.write(write_end, b'x')
    signal.pause()
