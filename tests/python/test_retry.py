# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Reliable delivery: waiting for a receiver that is not ready, giving up on one that is gone."""
import time

import pytest
import verbs_enums as e

from harness import (FETCH_ADD, FLUSH, READ, SEND, SEND_IMM, WRITE, WRITE_IMM, connect, pattern,
                     poll, poll_error, poll_nothing, poll_ok)

pytestmark = pytest.mark.addresses

ERR, RTS = e.IBV_QPS_ERR, e.IBV_QPS_RTS
RNR = e.IBV_WC_RNR_RETRY_EXC_ERR
RETRY = e.IBV_WC_RETRY_EXC_ERR


@pytest.mark.parametrize('opcode', [SEND, SEND_IMM, WRITE_IMM])
@pytest.mark.parametrize('retries', [0, 1, 6])
def test_rnr_gives_up(pair, opcode, retries):
    """No receive comes: after rnr_retry repetitions the send fails; the responder is unharmed."""
    client, server = pair(client_has={'rnr_retry': retries}, server_has={'min_rnr_timer': 14})
    start = time.monotonic()
    client.send(opcode, client.region.sge(0, 8), to=server.region.at(), wr_id=1)
    client.send(SEND, client.region.sge(0, 8), wr_id=2)
    wc = poll_error(client.scq, RNR, 'PEER_NOT_READY')
    took = time.monotonic() - start
    assert wc.wr_id == 1
    assert took >= retries * 0.001  # code 14 is 1.28 ms
    assert poll(client.scq)[0].status == FLUSH
    assert (client.state(), server.state()) == (ERR, RTS)
    server.device.no_event(0.01)


def test_rnr_timer(pair):
    """The responder's timer says how long to wait: 10.24 ms a time with code 20."""
    client, _ = pair(client_has={'rnr_retry': 5}, server_has={'min_rnr_timer': 20})
    start = time.monotonic()
    client.send(SEND, client.region.sge(0, 8))
    poll_error(client.scq, RNR, 'PEER_NOT_READY')
    assert 0.05 <= time.monotonic() - start < 2


@pytest.mark.parametrize('opcode', [SEND, WRITE_IMM])
def test_rnr_for_ever(pair, opcode):
    """rnr_retry 7 waits without end, and goes on as soon as a receive is posted."""
    client, server = pair(client_has={'rnr_retry': 7})
    client.region.write(pattern(4000))
    for number in range(3):
        client.send(opcode, client.region.sge(1000 * number, 1000),
                    to=server.region.at(8192 + 1000 * number), wr_id=number)
    poll_nothing(client.scq, 0.3)
    for number in range(3):
        server.recv(server.region.sge(1000 * number, 1000), wr_id=number)
        assert poll_ok(server.rcq).wr_id == number
        assert poll_ok(client.scq).wr_id == number
    place = 8192 if opcode == WRITE_IMM else 0
    assert server.region.read(3000, place) == pattern(4000)[:3000]


def test_rnr_count_starts_again(pair):
    """The retries are counted for each message anew."""
    client, server = pair(client_has={'rnr_retry': 6}, server_has={'min_rnr_timer': 20})
    for _ in range(4):
        client.send(SEND, client.region.sge(0, 8))
        time.sleep(0.03)
        server.recv()
        poll_ok(client.scq)
        poll_ok(server.rcq)


def test_rnr_waiting_can_be_flushed(pair):
    """A QP that waits for its peer can be moved to ERR or RESET at once."""
    client, server = pair(server_has={'min_rnr_timer': 0})  # 655 ms
    client.send(SEND, client.region.sge(0, 8), wr_id=5)
    time.sleep(0.02)
    start = time.monotonic()
    client.to(ERR)
    assert [(wc.wr_id, wc.status) for wc in poll(client.scq)] == [(5, FLUSH)]
    assert time.monotonic() - start < 0.3
    client.to(e.IBV_QPS_RESET)
    server.to(e.IBV_QPS_RESET)
    connect(client, server)
    server.recv()
    poll_nothing(server.rcq, 0.8)  # what was flushed is not sent later
    client.send(SEND, client.region.sge(0, 8), wr_id=6)
    assert poll_ok(client.scq).wr_id == 6


def test_others_go_on(pair):
    """A QP that waits does not hold up others of the same context."""
    client, server = pair()
    other, peer = pair(client={'device': client.device, 'pd': client.pd},
                       server={'device': server.device, 'pd': server.pd})
    client.send(SEND, client.region.sge(0, 8))
    for _ in range(100):
        peer.recv()
        other.send(SEND, other.region.sge(0, 8))
        poll_ok(other.scq)
        poll_ok(peer.rcq)
    poll_nothing(client.scq)


@pytest.mark.parametrize('opcode', [SEND, WRITE, READ, FETCH_ADD])
def test_peer_destroyed(pair, opcode):
    """The peer's QP is gone: retries exceeded, whatever the operation."""
    client, server = pair(client_has={'timeout': 4, 'retry_cnt': 2})
    place = server.region.at()
    server.qp.close()
    client.send(opcode, client.region.sge(0, 8), to=place, wr_id=1)
    client.send(SEND, client.region.sge(0, 8), wr_id=2)
    assert poll_error(client.scq, RETRY, 'NO_RESPONSE').wr_id == 1
    assert poll(client.scq)[0].status == FLUSH
    assert client.state() == ERR


@pytest.mark.parametrize('state', [e.IBV_QPS_RESET, e.IBV_QPS_INIT, ERR])
def test_peer_not_listening(pair, state):
    """A QP in RESET, INIT or ERR does not answer."""
    client, server = pair(client_has={'timeout': 4, 'retry_cnt': 1})
    server.to(ERR)
    if state != ERR:
        server.to(e.IBV_QPS_RESET)
    if state == e.IBV_QPS_INIT:
        server.to_init()
    client.send(WRITE, client.region.sge(0, 8), to=server.region.at())
    poll_error(client.scq, RETRY, 'NO_RESPONSE')
    assert server.region.read(8) == bytes(8)


def test_another_source(side, ethernet):
    """A peer that is connected to another GID than the one that a QP sends from drops its packets."""
    if not ethernet:
        pytest.skip('without GRHs there is no source GID')
    client, server = side(), side()
    entries = [entry.gid_index for entry in client.ctx.query_gid_table(8)]
    for side in (client, server):
        side.to_init()
    client.to_rtr(server)
    server.to_rtr(client, ah_attr=server.device.address(client.device, gid_index=entries[1]))
    client.to_rts(timeout=4, retry_cnt=1)
    client.send(WRITE, client.region.sge(0, 8), to=server.region.at())
    poll_error(client.scq, RETRY, 'NO_RESPONSE')


@pytest.mark.parametrize('retries, timeout, least', [(0, 14, 0.06), (1, 13, 0.06), (7, 12, 0.13)])
def test_time_until_retries_are_exceeded(pair, retries, timeout, least):
    """retry_cnt repetitions, each after 4.096 us * 2^timeout."""
    client, server = pair(client_has={'timeout': timeout, 'retry_cnt': retries})
    server.qp.close()
    start = time.monotonic()
    client.send(SEND, client.region.sge(0, 8))
    poll_error(client.scq, RETRY, 'NO_RESPONSE')
    assert least <= time.monotonic() - start < 20 * least + 1


def test_peer_comes_late(side):
    """A peer that reaches RTR while the requester still repeats gets the message, once."""
    client, server = side(), side()
    client.attributes.update(timeout=15, retry_cnt=7)
    for one in (client, server):
        one.to_init()
    client.to_rtr(server)
    client.to_rts()
    client.region.write(pattern(100))
    server.recv(wr_id=1)
    server.recv(wr_id=2)
    client.send(SEND, client.region.sge(0, 100))
    time.sleep(0.1)
    server.to_rtr(client)
    poll_ok(client.scq)
    assert poll_ok(server.rcq).wr_id == 1
    assert server.region.read(100) == pattern(100)
    poll_nothing(server.rcq)


def test_wrong_packet_number(side):
    """The ends do not agree on the first packet number: a gap is a sequence error, and fails."""
    client, server = side(), side()
    client.attributes.update(timeout=4, retry_cnt=1)
    connect(client, server, {'sq_psn': 1000}, {'rq_psn': 900})
    server.recv()
    client.send(SEND, client.region.sge(0, 8))
    assert poll(client.scq)[0].status == RETRY
    poll_nothing(server.rcq)


@pytest.mark.parametrize('opcode', [SEND, WRITE])
@pytest.mark.parametrize('sent, awaited, reason', [(17, 99, 'PSN_BEFORE_START'),
                                                   (17, 3, 'PSN_SEQUENCE')])
def test_packet_numbers_that_differ(side, opcode, sent, awaited, reason):
    """
    The two ends disagree on the first PSN. Nothing arrives, so nothing succeeds, whichever is
    ahead; and the completion says that it is that.
    """
    client, server = side(), side()
    connect(client, server, {'sq_psn': sent, 'timeout': 4, 'retry_cnt': 2}, {'rq_psn': awaited})
    client.region.write(pattern(8))
    server.recv()
    client.send(opcode, client.region.sge(0, 8), to=server.region.at(64))
    poll_error(client.scq, RETRY, reason)
    poll_nothing(server.rcq)
    assert server.region.read(72) == bytes(72)
    assert server.state() == RTS
