# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Small messages that wait beside their receives, and are copied by who polls."""
import pytest
import verbs_enums as e
from pyverbs.cq import CQEX, CqInitAttrEx, PollCqAttr

from harness import PAGE, RC, SEND, UC, pattern, poll_ok

MOST = 64  # bytes that do


def arrived(server, length):
    return server.region.read(length) == pattern(length, 3)


@pytest.mark.private_memory('to what both map small messages go at once')
@pytest.mark.parametrize('qp_type', [RC, UC])
@pytest.mark.parametrize('length', [1, 8, MOST, MOST + 1])
def test_until_it_is_polled(pair, qp_type, length):
    """The buffer has the data when the receive was polled; of small ones not before."""
    client, server = pair(qp_type)
    client.region.write(pattern(length, 3))
    for _ in range(3):
        server.region.write(bytes(length))
        server.recv(server.region.sge(0, PAGE))
        client.send(SEND, client.region.sge(0, length))
        poll_ok(client.scq)
        if qp_type == RC:
            assert arrived(server, length) == (length > MOST)
        assert poll_ok(server.rcq).byte_len == length
        assert arrived(server, length)


def test_several_that_wait(pair):
    """Each in its own slot, round the ring."""
    client, server = pair(recv_wr=8)
    for first in range(0, 40, 8):
        for i in range(first, first + 8):
            server.recv(server.region.sge(i * MOST, MOST))
            client.region.write(pattern(MOST, i), i * MOST)
            client.send(SEND, client.region.sge(i * MOST, MOST))
        poll_ok(client.scq, 8)
        poll_ok(server.rcq, 8)
    for i in range(40):
        assert server.region.read(MOST, i * MOST) == pattern(MOST, i)


@pytest.mark.private_memory('to what both map small messages go at once')
def test_extended_polling(pair, open_device, keep):
    """ibv_start_poll() and ibv_next_poll() copy as ibv_poll_cq() does."""
    cq = keep(CQEX(open_device.ctx, CqInitAttrEx(cqe=16)))
    client, server = pair(server={'device': open_device, 'rcq': cq})
    for i in range(2):
        client.region.write(pattern(8, i), i * 8)
        server.recv(server.region.sge(i * 8, 8))
        client.send(SEND, client.region.sge(i * 8, 8))
    poll_ok(client.scq, 2)
    assert cq.start_poll(PollCqAttr()) == 0
    after_one = server.region.read(8), server.region.read(8, 8)
    found = cq.poll_next()
    cq.end_poll()
    assert (found, *after_one) == (0, pattern(8, 0), bytes(8))
    assert server.region.read(8, 8) == pattern(8, 1)


@pytest.mark.private_memory('to what both map small messages go at once')
def test_what_nobody_polls(pair):
    """A QP that starts over takes its completions with it, and the data that wait by them."""
    client, server = pair()
    server.recv(server.region.sge(0, MOST))
    client.region.write(pattern(MOST, 3))
    client.send(SEND, client.region.sge(0, MOST))
    poll_ok(client.scq)
    server.to(e.IBV_QPS_RESET)
    assert not server.rcq.poll()[0]
    assert server.region.read(MOST) == bytes(MOST)
