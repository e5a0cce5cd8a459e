# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Creating queue pairs: limits, what is granted, what is refused."""
import errno

import pytest
import verbs_enums as e
from pyverbs.cq import CQ
from pyverbs.qp import QP, QPCap, QPEx, QPInitAttr, QPInitAttrEx

from harness import RC, SEND_OPS, UC, UD, refused

TYPES = pytest.mark.parametrize('qp_type', [RC, UC, UD], ids=['RC', 'UC', 'UD'])
CAPS = ('max_send_wr', 'max_recv_wr', 'max_send_sge', 'max_recv_sge', 'max_inline_data')


@pytest.fixture
def cq(ctx):
    made = CQ(ctx, 10)
    yield made
    made.close()


def _caps(cap):
    return {name: getattr(cap, name) for name in CAPS}


@TYPES
@pytest.mark.parametrize('caps', [
    {}, {'max_send_wr': 1, 'max_recv_wr': 1}, {'max_send_wr': 100, 'max_inline_data': 512},
    {'max_send_wr': 1000, 'max_recv_wr': 777, 'max_send_sge': 7, 'max_recv_sge': 9},
    {'max_send_wr': 16384, 'max_recv_wr': 16384}, {'max_send_sge': 30, 'max_recv_sge': 30},
    {'max_send_wr': 0, 'max_recv_wr': 0, 'max_send_sge': 0, 'max_recv_sge': 0}])
def test_caps(pd, cq, qp_type, caps):
    """At least what was asked for is granted, written back, and queried again."""
    wanted = QPCap(**caps)
    attr = QPInitAttr(qp_type=qp_type, scq=cq, rcq=cq, cap=wanted)
    qp = QP(pd, attr)
    granted = _caps(attr.cap)
    for name, value in _caps(wanted).items():
        assert granted[name] >= value
    # Inline data lie in the place of the list of SGEs.
    if granted['max_send_wr']:
        assert granted['max_inline_data'] >= 16 * granted['max_send_sge']
    got, init = qp.query(e.IBV_QP_CAP | e.IBV_QP_STATE)
    assert _caps(got.cap) == granted
    assert _caps(init.cap) == granted
    assert got.qp_state == e.IBV_QPS_RESET
    assert init.qp_type == qp_type
    assert qp.qp_type == qp_type
    qp.close()


@pytest.mark.parametrize('sig_all', [0, 1])
def test_sq_sig_all_is_queried(pd, cq, sig_all):
    """What was asked for at creation is reported."""
    qp = QP(pd, QPInitAttr(qp_type=RC, scq=cq, rcq=cq, cap=QPCap(), sq_sig_all=sig_all))
    assert qp.query(e.IBV_QP_CAP)[1].sq_sig_all == sig_all
    qp.close()


def test_inline_limit(pd, cq):
    """512 bytes of inline data and more; there is a limit, and it is kept."""
    size = 512
    while True:
        try:
            QP(pd, QPInitAttr(qp_type=RC, scq=cq, rcq=cq, cap=QPCap(max_inline_data=size))).close()
        except Exception as error:
            assert error.error_code == errno.EINVAL
            break
        size *= 2
        assert size < 1 << 20
    assert size > 512


@TYPES
@pytest.mark.parametrize('name, limit', [
    ('max_send_wr', 'max_qp_wr'), ('max_recv_wr', 'max_qp_wr'),
    ('max_send_sge', 'max_sge'), ('max_recv_sge', 'max_sge')])
def test_too_much(ctx, pd, cq, qp_type, name, limit):
    """The limit is granted, one more and very much more are not."""
    most = getattr(ctx.query_device(), limit)
    for excess in (1, 0xffffffff - most):
        with refused(errno.EINVAL):
            QP(pd, QPInitAttr(qp_type=qp_type, scq=cq, rcq=cq,
                              cap=QPCap(**{name: most + excess})))
    QP(pd, QPInitAttr(qp_type=qp_type, scq=cq, rcq=cq, cap=QPCap(**{name: most}))).close()


def test_without_cq(pd, cq):
    """A QP needs both CQs."""
    for cqs in ({'scq': cq}, {'rcq': cq}, {}):
        with refused(errno.EINVAL):
            QP(pd, QPInitAttr(qp_type=RC, cap=QPCap(), **cqs))


@pytest.mark.parametrize('qp_type', [0, 1, 7, 100])
def test_no_such_type(pd, cq, qp_type):
    """A type that does not exist."""
    with refused(errno.EOPNOTSUPP):
        QP(pd, QPInitAttr(qp_type=qp_type, scq=cq, rcq=cq, cap=QPCap()))


def test_qp_numbers(pd, cq):
    """24 bits, all different, none of the special ones; none comes back at once."""
    seen = set()
    for _ in range(300):
        qp = QP(pd, QPInitAttr(qp_type=RC, scq=cq, rcq=cq, cap=QPCap()))
        assert 1 < qp.qp_num < 0xffffff
        assert qp.qp_num not in seen
        seen.add(qp.qp_num)
        qp.close()


@TYPES
def test_extended(ctx, pd, cq, qp_type):
    """ibv_create_qp_ex, with and without send operations."""
    pd_only = e.IBV_QP_INIT_ATTR_PD
    QP(ctx, QPInitAttrEx(qp_type=qp_type, scq=cq, rcq=cq, cap=QPCap(), pd=pd,
                         comp_mask=pd_only)).close()
    QPEx(ctx, QPInitAttrEx(qp_type=qp_type, scq=cq, rcq=cq, cap=QPCap(), pd=pd,
                           comp_mask=pd_only | e.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
                           send_ops_flags=SEND_OPS[qp_type])).close()


def test_extended_refuses(ctx, pd, cq):
    """No PD; operations that the type does not have; flags that nobody knows."""
    with_ops = e.IBV_QP_INIT_ATTR_PD | e.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS
    with refused(errno.EINVAL):
        QPEx(ctx, QPInitAttrEx(qp_type=RC, scq=cq, rcq=cq, cap=QPCap(), comp_mask=0))
    for qp_type, operation in ((UD, e.IBV_QP_EX_WITH_RDMA_WRITE),
                               (UC, e.IBV_QP_EX_WITH_RDMA_READ),
                               (UC, e.IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD),
                               (RC, e.IBV_QP_EX_WITH_TSO)):
        with refused(errno.EOPNOTSUPP):
            QPEx(ctx, QPInitAttrEx(qp_type=qp_type, scq=cq, rcq=cq, cap=QPCap(), pd=pd,
                                   comp_mask=with_ops, send_ops_flags=operation))
    with refused(errno.EOPNOTSUPP):
        QPEx(ctx, QPInitAttrEx(qp_type=RC, scq=cq, rcq=cq, cap=QPCap(), pd=pd, create_flags=1 << 20,
                               comp_mask=e.IBV_QP_INIT_ATTR_PD
                               | e.IBV_QP_INIT_ATTR_CREATE_FLAGS))


@TYPES
def test_data_in_order(pd, cq, qp_type):
    """The device promises no order among the bytes of a message, whatever it is asked about."""
    qp = QP(pd, QPInitAttr(qp_type=qp_type, scq=cq, rcq=cq, cap=QPCap()))
    for opcode in (e.IBV_WR_SEND, e.IBV_WR_RDMA_WRITE, e.IBV_WR_RDMA_READ):
        for flags in (0, 1):
            assert qp.query_data_in_order(opcode, flags) == 0
    qp.close()
