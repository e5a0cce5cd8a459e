# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The state machine of queue pairs: transitions, attributes, flushing, starting over."""
import errno

import pytest
import verbs_enums as e
from pyverbs.addr import AH
from pyverbs.wr import SGE

from harness import (ATTRIBUTES, FLUSH, FULL, INIT_MASK, RC, REASON, REMOTE_READ, RTR_MASK,
                     RTS_MASK, SEND, UC, UD, WRITE, connect, eventually, pattern, poll,
                     poll_nothing, poll_ok, qp_attr, refused)

pytestmark = pytest.mark.addresses

RESET, INIT, RTR, RTS = (e.IBV_QPS_RESET, e.IBV_QPS_INIT, e.IBV_QPS_RTR, e.IBV_QPS_RTS)
SQD, SQE, ERR = e.IBV_QPS_SQD, e.IBV_QPS_SQE, e.IBV_QPS_ERR
STATE = e.IBV_QP_STATE
TYPES = pytest.mark.parametrize('qp_type', [RC, UC, UD], ids=['RC', 'UC', 'UD'])
MASK = {INIT: INIT_MASK, RTR: RTR_MASK, RTS: RTS_MASK}
PATH_TO = {RESET: [], INIT: [INIT], RTR: [INIT, RTR], RTS: [INIT, RTR, RTS],
           SQD: [INIT, RTR, RTS, SQD], ERR: [INIT, ERR]}
LEGAL = {
    RESET: {RESET, INIT},
    INIT: {RESET, INIT, RTR, ERR},
    RTR: {RESET, RTS, ERR},
    RTS: {RESET, RTS, SQD, ERR},
    SQD: {RESET, RTS, SQD, ERR},
    ERR: {RESET, ERR},
}


def step(side, state, mask=None, **values):
    """One transition with all that it needs; of a connected QP, to itself."""
    here = side.state()
    if mask is None:
        mask = STATE
        if (here, state) in ((RESET, INIT), (INIT, RTR), (RTR, RTS)):
            mask = MASK[state][side.qp_type]
    if side.qp_type != UD:
        values = {'ah_attr': side.device.address(), 'dest_qp_num': side.qp.qp_num, **values}
    side.modify(state, mask, **values)


def go(side, state):
    for stop in PATH_TO[state]:
        step(side, stop)
    assert side.state() == state
    assert side.qp.qp_state == state


@TYPES
@pytest.mark.parametrize('source', sorted(LEGAL))
def test_transitions(side, qp_type, source):
    """Each pair of states: either the QP is there afterwards, or it is refused and stays."""
    for target in (RESET, INIT, RTR, RTS, SQD, SQE, ERR):
        one = side(qp_type, size=0)
        go(one, source)
        if target in LEGAL[source]:
            step(one, target)
            assert one.state() == target
        else:
            with refused(errno.EINVAL):
                one.modify(target, MASK.get(target, {}).get(qp_type, STATE),
                           ah_attr=one.device.address(), dest_qp_num=1)
            assert one.state() == source
        one.qp.close()


def test_no_such_state(side):
    """A state that does not exist."""
    one = side(size=0)
    with refused(errno.EINVAL):
        one.modify(17, STATE)


@TYPES
@pytest.mark.parametrize('target', [INIT, RTR, RTS])
def test_required_attributes(side, qp_type, target):
    """Without any one of the attributes that a transition needs it does not happen."""
    one = side(qp_type, size=0)
    source = {INIT: RESET, RTR: INIT, RTS: RTR}[target]
    go(one, source)
    needed = MASK[target][qp_type] & ~STATE
    for bit in (1 << number for number in range(32)):
        if needed & bit:
            with refused(errno.EINVAL):
                step(one, target, MASK[target][qp_type] & ~bit)
            assert one.state() == source
    step(one, target)


@TYPES
@pytest.mark.parametrize('target, extra', [
    (INIT, e.IBV_QP_SQ_PSN), (INIT, e.IBV_QP_TIMEOUT), (INIT, e.IBV_QP_DEST_QPN),
    (RTR, e.IBV_QP_SQ_PSN), (RTR, e.IBV_QP_PORT), (RTR, e.IBV_QP_RETRY_CNT),
    (RTS, e.IBV_QP_PATH_MTU), (RTS, e.IBV_QP_RQ_PSN), (RTS, e.IBV_QP_DEST_QPN)])
def test_attributes_that_do_not_belong(side, qp_type, target, extra):
    """An attribute that a transition does not take makes it fail."""
    one = side(qp_type, size=0)
    source = {INIT: RESET, RTR: INIT, RTS: RTR}[target]
    go(one, source)
    with refused(errno.EINVAL):
        step(one, target, MASK[target][qp_type] | extra)
    assert one.state() == source


@pytest.mark.parametrize('target, values', [
    (INIT, {'port_num': 0}), (INIT, {'port_num': 2}), (INIT, {'pkey_index': 1}),
    (RTR, {'path_mtu': 0}), (RTR, {'path_mtu': 6}),
    (RTR, {'max_dest_rd_atomic': 17}), (RTR, {'min_rnr_timer': 32}),
    (RTR, {'dest_qp_num': 1 << 24}), (RTS, {'timeout': 32}), (RTS, {'retry_cnt': 8}),
    (RTS, {'rnr_retry': 8}), (RTS, {'max_rd_atomic': 129})],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None)
def test_bad_values(side, target, values):
    """A value out of range: nothing of the transition takes place."""
    one = side(size=0)
    source = {INIT: RESET, RTR: INIT, RTS: RTR}[target]
    go(one, source)
    with refused(errno.EINVAL):
        step(one, target, **values)
    assert one.state() == source
    step(one, target)


@pytest.mark.parametrize('flags', [
    e.IBV_ACCESS_ZERO_BASED, e.IBV_ACCESS_RELAXED_ORDERING, e.IBV_ACCESS_HUGETLB,
    e.IBV_ACCESS_ON_DEMAND, 1 << 8, 1 << 9, 1 << 14, 1 << 31], ids=hex)
def test_access_flags_without_a_meaning(side, flags):
    """One set of flags for regions and QPs, FLUSH_GLOBAL and _PERSISTENT too: it is taken."""
    one = side(size=0)
    step(one, INIT, qp_access_flags=flags | REMOTE_READ)
    assert one.qp.query(e.IBV_QP_ACCESS_FLAGS)[0].qp_access_flags & FULL == REMOTE_READ
    step(one, RTR, MASK[RTR][RC] | e.IBV_QP_ACCESS_FLAGS, qp_access_flags=flags)
    assert not one.qp.query(e.IBV_QP_ACCESS_FLAGS)[0].qp_access_flags & FULL


def test_bad_address(side, ethernet):
    """An address whose source GID is empty, or, on Ethernet, without a GRH."""
    one = side(size=0)
    go(one, INIT)
    bad = one.device.address(grh=True)
    bad.sgid_index = 7
    with refused(errno.ENODATA):
        step(one, RTR, ah_attr=bad)
    if ethernet:
        with refused(errno.EINVAL):
            step(one, RTR, ah_attr=one.device.address(grh=False))
    assert one.state() == INIT


def test_mtu_beyond_the_port(side):
    """A path MTU up to the port's active MTU."""
    for mtu in (e.IBV_MTU_256, e.IBV_MTU_4096):
        one = side(size=0)
        go(one, INIT)
        step(one, RTR, path_mtu=mtu)


def test_current_state(side):
    """IBV_QP_CUR_STATE says where the caller believes the QP is; if it is not, EINVAL."""
    one = side(size=0)
    go(one, RTR)
    mask = RTS_MASK[RC] | e.IBV_QP_CUR_STATE
    with refused(errno.EINVAL):
        step(one, RTS, mask, cur_qp_state=INIT)
    assert one.state() == RTR
    step(one, RTS, mask, cur_qp_state=RTR)
    assert one.state() == RTS


ECHO = {'qp_access_flags': REMOTE_READ, 'path_mtu': e.IBV_MTU_512, 'dest_qp_num': 0xabcdef,
        'rq_psn': 0x123456, 'sq_psn': 0x654321, 'max_dest_rd_atomic': 7, 'max_rd_atomic': 3,
        'min_rnr_timer': 19, 'timeout': 21, 'retry_cnt': 5, 'rnr_retry': 2, 'pkey_index': 0,
        'port_num': 1}


def test_query(side):
    """Every attribute that was set comes back, so that a QP can be brought up again from it."""
    one = side(size=0)
    address = one.device.address(grh=True)
    address.flow_label, address.hop_limit, address.traffic_class, address.sl = 0x54321, 5, 6, 3
    one.attributes.update(ECHO)
    one.to_init()
    one.modify(RTR, RTR_MASK[RC], ah_attr=address)
    one.to_rts()
    attr, init = one.qp.query(0x1ffffff)
    assert attr.qp_state == attr.cur_qp_state == RTS
    for name, value in ECHO.items():
        assert getattr(attr, name) == value, name
    for name in ('is_global', 'dgid', 'sgid_index', 'hop_limit', 'flow_label', 'traffic_class',
                 'sl', 'dlid', 'port_num'):
        assert getattr(attr.ah_attr, name) == getattr(address, name), name
    assert attr.path_mig_state == e.IBV_MIG_MIGRATED
    assert not attr.sq_draining
    assert init.cap.max_send_wr == attr.cap.max_send_wr == one.cap.max_send_wr


def test_query_ud(side):
    """Q_Key and PSN of a UD QP."""
    one = side(UD, size=0)
    one.start(qkey=0x7654321, sq_psn=0x10203)
    attr, _ = one.qp.query(0x1ffffff)
    assert (attr.qkey, attr.sq_psn, attr.qp_state) == (0x7654321, 0x10203, RTS)


def test_change_on_the_way(side):
    """Attributes that may be changed without leaving the state: in INIT, RTS and SQD."""
    one = side(size=0)
    go(one, INIT)
    step(one, INIT, STATE | e.IBV_QP_ACCESS_FLAGS, qp_access_flags=REMOTE_READ)
    assert one.qp.query(e.IBV_QP_ACCESS_FLAGS)[0].qp_access_flags == REMOTE_READ
    step(one, RTR)
    step(one, RTS)
    one.modify(RTS, e.IBV_QP_ACCESS_FLAGS | e.IBV_QP_MIN_RNR_TIMER, qp_access_flags=FULL,
               min_rnr_timer=9)
    attr, _ = one.qp.query(e.IBV_QP_ACCESS_FLAGS | e.IBV_QP_MIN_RNR_TIMER)
    assert (attr.qp_access_flags, attr.min_rnr_timer) == (FULL, 9)
    with refused(errno.EINVAL):
        one.modify(RTS, e.IBV_QP_TIMEOUT, timeout=3)
    step(one, SQD)
    one.modify(SQD, e.IBV_QP_TIMEOUT | e.IBV_QP_RETRY_CNT, timeout=3, retry_cnt=1)
    attr, _ = one.qp.query(e.IBV_QP_TIMEOUT | e.IBV_QP_RETRY_CNT)
    assert (attr.timeout, attr.retry_cnt) == (3, 1)


# ------------------------------------------------------------------------------- ERR

def test_flush(pair):
    """To ERR: what is in both queues completes as flushed, each queue in its order."""
    client, server = pair()
    for number in range(7):
        client.recv(wr_id=100 + number)
    for number in range(5):  # the server has no receive posted: the first one waits
        client.send(SEND, client.region.sge(0, 8), wr_id=number, flags=0)
    client.to(ERR)
    sent, received = poll(client.scq, 5), poll(client.rcq, 7)
    assert [wc.wr_id for wc in sent] == list(range(5))
    assert [wc.wr_id for wc in received] == list(range(100, 107))
    for wc in sent + received:
        assert (wc.status, wc.vendor_err) == (FLUSH, REASON['FLUSHED'])
        assert wc.qp_num == client.qp.qp_num
    poll_nothing(client.scq)
    poll_nothing(client.rcq)


def test_flush_of_a_qp_without_peer(side):
    """Receives posted in INIT are flushed as well."""
    one = side()
    go(one, INIT)
    one.recv(wr_id=1)
    one.recv(wr_id=2)
    one.to(ERR)
    assert [(wc.wr_id, wc.status) for wc in poll(one.rcq, 2)] == [(1, FLUSH), (2, FLUSH)]


def test_posting_in_err(pair):
    """What is posted to a QP in ERR is accepted and flushed at once."""
    client, _ = pair()
    client.to(ERR)
    for number in range(200):
        client.recv(wr_id=number)
        client.send(SEND, client.region.sge(0, 8), wr_id=1000 + number)
        assert (poll(client.rcq)[0].wr_id, poll(client.scq)[0].wr_id) == (number, 1000 + number)


def test_nothing_is_received_in_err(pair):
    """A QP in ERR does not answer: its peer's send ends with retries exceeded, receives unused."""
    client, server = pair(client_has={'timeout': 4, 'retry_cnt': 1})
    server.recv(wr_id=5)
    server.to(ERR)
    assert poll(server.rcq)[0].status == FLUSH
    client.send(SEND, client.region.sge(0, 8))
    assert poll(client.scq)[0].status == e.IBV_WC_RETRY_EXC_ERR


def test_flush_ordering_after_error(pair):
    """A work request that fails completes with its error first, all behind it are flushed."""
    client, server = pair()
    server.recv()
    client.send(SEND, client.region.sge(0, 8), wr_id=0, flags=0)
    client.send(WRITE, client.region.sge(0, 8), to=(server.region.addr, 1), wr_id=1)
    for number in range(2, 10):
        client.send(SEND, client.region.sge(0, 8), wr_id=number, flags=0)
    found = poll(client.scq, 9)
    assert [wc.wr_id for wc in found] == list(range(1, 10))
    assert found[0].status == e.IBV_WC_REM_ACCESS_ERR
    assert {wc.status for wc in found[1:]} == {FLUSH}
    assert client.state() == server.state() == ERR
    poll_ok(server.rcq)


# ----------------------------------------------------------------------------- RESET

@TYPES
def test_reset_purges(side, qp_type):
    """To RESET: completions that were not taken are gone, queues are empty, nothing follows."""
    one, other = side(qp_type), side(qp_type)
    connect(one, other)
    if qp_type == UD:
        one.to(ERR)
    for number in range(20):
        one.recv(wr_id=number)
        if qp_type == UC:
            one.send(SEND, one.region.sge(0, 8), wr_id=number)
    if qp_type == RC:
        for number in range(20):
            one.send(SEND, one.region.sge(0, 8), wr_id=number)
        one.to(ERR)
    poll_completions_exist = one.scq if qp_type != UD else one.rcq
    eventually(lambda: poll_completions_exist.poll(1)[0])
    one.to(RESET)
    poll_nothing(one.scq)
    poll_nothing(one.rcq)
    assert one.state() == RESET


def test_reset_and_again(pair):
    """After RESET the pair works as new, and both queues have their full depth."""
    client, server = pair()
    for turn in range(5):
        for number in range(server.cap.max_recv_wr):
            server.recv(server.region.sge(0, 64), wr_id=number)
        for number in range(client.cap.max_send_wr):
            client.send(SEND, client.region.sge(0, 64), wr_id=number)
        if turn % 2:
            poll_ok(client.scq, 3)
            poll_ok(server.rcq, 5)
        for side in (client, server):
            side.to(RESET)
        connect(client, server)
        poll_nothing(client.scq, 0.01)
        poll_nothing(server.rcq, 0.01)
    client.region.write(pattern(64, 9))
    server.recv()
    client.send(SEND, client.region.sge(0, 64), wr_id=7)
    assert poll_ok(client.scq).wr_id == 7
    poll_ok(server.rcq)
    assert server.region.read(64) == pattern(64, 9)


def test_reset_forgets_attributes(side):
    """A QP that comes from RESET has none of its old attributes."""
    one = side(size=0)
    go(one, RTS)
    one.to(RESET)
    attr, _ = one.qp.query(0x1ffffff)
    assert (attr.qp_state, attr.dest_qp_num, attr.timeout, attr.qp_access_flags) == (RESET, 0, 0, 0)


def test_receives_posted_in_init_are_used(side):
    """A receive may be posted as soon as the QP is in INIT."""
    client, server = side(), side()
    client.to_init()
    server.to_init()
    server.recv(wr_id=42)
    for one, peer in ((client, server), (server, client)):
        one.to_rtr(peer)
    client.to_rts()
    client.send(SEND, client.region.sge(0, 3))
    assert poll_ok(server.rcq).wr_id == 42
    poll_ok(client.scq)


# ------------------------------------------------------------------------- SQD and SQE

def test_sqd_holds_what_is_not_begun(pair):
    """In SQD nothing new is sent; back in RTS it is."""
    client, server = pair()
    client.to(SQD)
    server.recv()
    client.send(SEND, client.region.sge(0, 8), wr_id=3)
    poll_nothing(client.scq)
    client.to(RTS)
    assert poll_ok(client.scq).wr_id == 3
    poll_ok(server.rcq)


def test_sqd_still_receives(pair):
    """Draining is about the send queue: the receive side works."""
    client, server = pair()
    server.to(SQD)
    server.recv()
    client.send(SEND, client.region.sge(0, 8))
    client.send(WRITE, client.region.sge(0, 8), to=server.region.at())
    poll_ok(client.scq, 2)
    poll_ok(server.rcq)


@pytest.mark.parametrize('qp_type', [UC, UD], ids=['UC', 'UD'])
def test_sqe(side, qp_type):
    """A bad send of an unreliable QP stops its send queue only, and it can be started again."""
    one, other = side(qp_type), side(qp_type)
    connect(one, other)
    ud = None
    if qp_type == UD:
        ud = (AH(one.pd, attr=one.device.address()), other.qp.qp_num, ATTRIBUTES['qkey'])
    one.send(SEND, SGE(one.region.addr, 8, one.region.lkey ^ 0xff), wr_id=1, ud=ud)
    one.send(SEND, one.region.sge(0, 8), wr_id=2, ud=ud)
    first, second = poll(one.scq, 2)
    assert (first.wr_id, first.status) == (1, e.IBV_WC_LOC_PROT_ERR)
    assert (second.wr_id, second.status) == (2, FLUSH)
    assert one.state() == SQE
    one.qp.modify(qp_attr(qp_state=RTS), STATE)
    other.recv(wr_id=6)
    one.send(SEND, one.region.sge(0, 8), wr_id=3, ud=ud)
    assert poll_ok(one.scq).wr_id == 3
    assert poll_ok(other.rcq).wr_id == 6
