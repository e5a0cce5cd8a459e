# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Fails in the way that its argument names, or not at all: `fine`. With a count, so often."""
import signal
import sys
import time

import verbs_enums as e
from pyverbs.mr import MR
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QPAttr

from pair import ACCESS, LENGTH, Pair

RECEIVES = 12


def past_end():
    pair = Pair()
    pair.receive(RECEIVES)
    pair.send(1000, e.IBV_WR_RDMA_WRITE, to=LENGTH - 63)
    pair.poll(1 + RECEIVES)


def not_ready():
    pair = Pair()
    pair.send(7, e.IBV_WR_SEND)
    pair.poll(1)


def ready_too_late():
    pair = Pair()
    pair.send(7, e.IBV_WR_SEND)
    pair.poll(1)
    time.sleep(0.1)
    pair.receive(2)
    time.sleep(0.2)


def own_buffer():
    pair = Pair()
    pair.send(8, e.IBV_WR_SEND, offset=4000, length=128)
    pair.poll(1)


def own_buffer_then_peer():
    """The peer sends to a QP that has gone to ERR by an error of its own."""
    pair = Pair()
    pair.send(8, e.IBV_WR_SEND, offset=4000, length=128)
    pair.poll(1)
    pair.qp, pair.peer = pair.peer, pair.qp
    pair.send(9, e.IBV_WR_SEND)
    pair.poll(1)


def nobody():
    pair = Pair()
    pair.peer.close()
    pair.send(9, e.IBV_WR_RDMA_WRITE)
    pair.poll(1)


def old_key():
    """Memory that is registered again, and a peer that has kept the first key."""
    pair = Pair()
    memory = MR(pair.pd, LENGTH, ACCESS)
    first = MR(pair.pd, LENGTH, ACCESS, address=memory.buf)
    rkey = first.rkey
    first.close()
    again = MR(pair.pd, LENGTH, ACCESS, address=memory.buf)
    pair.send(5, e.IBV_WR_RDMA_WRITE, rkey=rkey)
    pair.poll(1)
    print(f"{rkey:#x} {again.rkey:#x}")


def asleep():
    """Reads an event, polls one of two completions, and waits for the next event."""
    pair = Pair(channel=True)
    pair.cq.req_notify()
    pair.send(1, e.IBV_WR_RDMA_WRITE)
    pair.channel.get_cq_event(pair.cq)
    pair.send(2, e.IBV_WR_RDMA_WRITE)
    signal.alarm(int(sys.argv[2]))
    pair.channel.get_cq_event(pair.cq)


def full():
    """Posts until the send queue is full, which nobody polls before."""
    pair = Pair()
    try:
        for i in range(1000):
            pair.send(i, e.IBV_WR_RDMA_WRITE)
    except PyverbsRDMAError:
        pair.poll(i)  # at the end of the program the region may go before they are done
        return
    sys.exit("a queue without end")


def overrun():
    """More completions than their CQ has room for, and nobody polls."""
    pair = Pair(cqe=3)
    for i in range(40):
        pair.send(i, e.IBV_WR_RDMA_WRITE)
    event = pair.context.get_async_event()
    assert event.event_type == e.IBV_EVENT_CQ_ERR
    event.ack()


def verb():
    pair = Pair()
    try:
        pair.make().modify(QPAttr(qp_state=e.IBV_QPS_RTS), e.IBV_QP_STATE)
    except PyverbsRDMAError:
        return
    sys.exit("RESET to RTS was taken")


def flushed():
    pair = Pair()
    pair.receive(RECEIVES)
    pair.peer.modify(QPAttr(qp_state=e.IBV_QPS_ERR), e.IBV_QP_STATE)
    pair.poll(RECEIVES)


def fine():
    pair = Pair()
    pair.mr.write(bytes(range(64)), 64)
    pair.send(1, e.IBV_WR_RDMA_WRITE)
    pair.poll(1)


for _ in range(int(sys.argv[2]) if len(sys.argv) > 2 else 1):
    globals()[sys.argv[1]]()
