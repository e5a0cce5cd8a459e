# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Asynchronous events that are not of another test's subject: which, once, at whom, in order."""
import os
import time

import verbs_enums as e
import pytest
from pyverbs.pyverbs_error import PyverbsRDMAError

from harness import RC, SEND, UC, UD, WRITE, connect, poll, poll_nothing, poll_ok
from programs import run_c

pytestmark = pytest.mark.addresses

SQD, RTS, ERR = e.IBV_QPS_SQD, e.IBV_QPS_RTS, e.IBV_QPS_ERR
EN_SQD = e.IBV_QP_EN_SQD_ASYNC_NOTIFY


@pytest.mark.parametrize('qp_type', [RC, UC], ids=['RC', 'UC'])
def test_communication_established(side, qp_type):
    """A first packet while the QP is still in RTR: COMM_EST, once; in RTS there is none."""
    client, server = side(qp_type), side(qp_type)
    for one in (client, server):
        one.to_init()
    for one, peer in ((client, server), (server, client)):
        one.to_rtr(peer)
    client.to_rts()
    client.device.no_event(0.01)
    for _ in range(3):
        server.recv()
        client.send(SEND, client.region.sge(0, 8))
        poll_ok(client.scq)
    poll_ok(server.rcq, 3)
    assert server.device.event() == e.IBV_EVENT_COMM_EST
    server.to_rts()
    server.recv()
    client.send(SEND, client.region.sge(0, 8))
    poll_ok(server.rcq)
    server.device.no_event()
    client.device.no_event(0.01)


def test_no_communication_established_in_rts(pair):
    """The ordinary way, with both ends in RTS before the first message, raises nothing."""
    client, server = pair()
    server.recv()
    client.send(SEND, client.region.sge(0, 8))
    poll_ok(server.rcq)
    server.device.no_event()


@pytest.mark.parametrize('qp_type', [RC, UC, UD], ids=['RC', 'UC', 'UD'])
def test_drained_at_once(side, qp_type):
    """To SQD with an empty send queue, and notification asked for: SQ_DRAINED."""
    one, other = side(qp_type), side(qp_type)
    connect(one, other)
    one.modify(SQD, e.IBV_QP_STATE | EN_SQD, en_sqd_async_notify=1)
    assert one.device.event() == e.IBV_EVENT_SQ_DRAINED
    assert not one.qp.query(e.IBV_QP_STATE)[0].sq_draining
    one.device.no_event(0.01)


def test_drained_unasked(pair):
    """Without asking for it there is no event."""
    client, _ = pair()
    client.modify(SQD, e.IBV_QP_STATE)
    client.device.no_event()


def test_drained_later(pair):
    """What is under way is finished first; the QP says that it drains, and the event comes then."""
    client, server = pair()
    client.send(SEND, client.region.sge(0, 8), wr_id=1)  # waits for a receive
    client.send(SEND, client.region.sge(0, 8), wr_id=2)
    time.sleep(0.02)
    client.modify(SQD, e.IBV_QP_STATE | EN_SQD, en_sqd_async_notify=1)
    client.device.no_event()
    assert client.qp.query(e.IBV_QP_STATE)[0].sq_draining
    server.recv()
    server.recv()
    assert client.device.event() == e.IBV_EVENT_SQ_DRAINED
    assert poll_ok(client.scq).wr_id == 1
    assert not client.qp.query(e.IBV_QP_STATE)[0].sq_draining
    poll_nothing(client.scq)
    client.modify(RTS, e.IBV_QP_STATE)
    assert poll_ok(client.scq).wr_id == 2


def test_events_wait(pair):
    """Events that nobody takes wait in order, and more than one context's do not mix."""
    client, server = pair()
    for one in (client, server):
        one.modify(SQD, e.IBV_QP_STATE | EN_SQD, en_sqd_async_notify=1)
    time.sleep(0.05)
    client.to(RTS)
    client.send(WRITE, client.region.sge(0, 8), to=(server.region.addr, 0))
    assert poll(client.scq)[0].status == e.IBV_WC_REM_ACCESS_ERR
    time.sleep(0.05)
    assert client.device.event() == e.IBV_EVENT_SQ_DRAINED
    client.device.no_event(0.01)
    assert server.device.event() == e.IBV_EVENT_SQ_DRAINED
    assert server.device.event() == e.IBV_EVENT_QP_ACCESS_ERR
    server.device.no_event(0.01)


def test_nonblocking(open_device):
    """With O_NONBLOCK on the descriptor, asking for an event that is not there does not wait."""
    os.set_blocking(open_device.async_fd, False)
    with pytest.raises(PyverbsRDMAError):
        open_device.ctx.get_async_event()


def test_destroy_with_event_untaken(pair):
    """A QP whose event nobody took can be destroyed, and the event is gone with it."""
    client, _ = pair()
    client.modify(SQD, e.IBV_QP_STATE | EN_SQD, en_sqd_async_notify=1)
    time.sleep(0.05)
    client.qp.close()
    client.device.no_event()


def test_elements(c_program):
    """Each event names its QP, CQ or SRQ; destroying waits until the event is acknowledged."""
    run_c(c_program('event_elements.c'))
