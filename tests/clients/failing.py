# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Fails in the way that its argument names, or not at all: `fine`. With a count, so often."""
import signal
import sys

import pyverbs.enums as e
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ, CompChannel
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

LENGTH = 4096
ACCESS = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE
RECEIVES = 12


class Pair:
    """Two connected RC QPs, with one region and one CQ."""

    def __init__(self, channel=False):
        self.context = Context(name="simhca0")
        self.pd = PD(self.context)
        self.channel = CompChannel(self.context) if channel else None
        self.cq = CQ(self.context, 100, None, self.channel)
        self.mr = MR(self.pd, LENGTH, ACCESS)
        self.qp, self.peer = self.make(), self.make()
        self.connect(self.qp, self.peer)
        self.connect(self.peer, self.qp)

    def make(self):
        caps = QPCap(max_send_wr=40, max_recv_wr=40)
        return QP(self.pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=caps))

    def connect(self, qp, peer):
        attr = QPAttr(port_num=1)
        attr.qp_access_flags = e.IBV_ACCESS_REMOTE_WRITE
        attr.ah_attr = AHAttr(gr=GlobalRoute(dgid=self.context.query_gid(1, 0)), is_global=1,
                              port_num=1)
        attr.dest_qp_num, attr.path_mtu = peer.qp_num, e.IBV_MTU_1024
        attr.timeout, attr.retry_cnt, attr.rnr_retry, attr.min_rnr_timer = 8, 2, 3, 1
        qp.to_rts(attr)

    def send(self, wr_id, opcode, offset=0, length=64, to=0, rkey=None):
        wr = SendWR(wr_id=wr_id, opcode=opcode, num_sge=1,
                    sg=[SGE(self.mr.buf + offset, length, self.mr.lkey)])
        if opcode == e.IBV_WR_RDMA_WRITE:
            wr.set_wr_rdma(self.mr.rkey if rkey is None else rkey, self.mr.buf + to)
        self.qp.post_send(wr)

    def receive(self, count):
        for i in range(count):
            self.peer.post_recv(RecvWR(wr_id=i, num_sge=1,
                                       sg=[SGE(self.mr.buf, 64, self.mr.lkey)]))

    def poll(self, count):
        while count:
            count -= self.cq.poll(count)[0]


def past_end():
    pair = Pair()
    pair.receive(RECEIVES)
    pair.send(1000, e.IBV_WR_RDMA_WRITE, to=LENGTH - 63)
    pair.poll(1 + RECEIVES)


def not_ready():
    pair = Pair()
    pair.send(7, e.IBV_WR_SEND)
    pair.poll(1)


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
