# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Two connected QPs, for programs that fail, or do what is odd."""
import verbs_enums as e
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ, CompChannel
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

LENGTH = 4096
ACCESS = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE


class Pair:
    """Two connected RC QPs, with one region and one CQ."""

    def __init__(self, channel=False, cqe=100, sig_all=1, rnr_retry=3, rnr_timer=1,
                 reads=1, peer_first=False, path_mtu=e.IBV_MTU_1024, asks_port=False):
        self.context = Context(name="simhca0")
        self.pd = PD(self.context)
        self.channel = CompChannel(self.context) if channel else None
        self.cq = CQ(self.context, cqe, None, self.channel)
        self.sig_all, self.rnr_retry, self.rnr_timer = sig_all, rnr_retry, rnr_timer
        self.mr = MR(self.pd, LENGTH, ACCESS)
        self.path_mtu = min(path_mtu, self.context.query_port(1).active_mtu) if asks_port else path_mtu
        self.qp, self.peer = self.make(), self.make()
        ends = [(self.qp, self.peer, reads), (self.peer, self.qp, 1)]
        for qp, peer, most in reversed(ends) if peer_first else ends:
            self.connect(qp, peer, most)

    def make(self):
        caps = QPCap(max_send_wr=40, max_recv_wr=40)
        return QP(self.pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=caps,
                                       sq_sig_all=self.sig_all))

    def connect(self, qp, peer, reads=1):
        attr = QPAttr(port_num=1)
        attr.qp_access_flags = e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
        attr.ah_attr = AHAttr(gr=GlobalRoute(dgid=self.context.query_gid(1, 0)), is_global=1,
                              port_num=1)
        attr.dest_qp_num, attr.path_mtu = peer.qp_num, self.path_mtu
        attr.timeout, attr.retry_cnt = 8, 2
        attr.rnr_retry, attr.min_rnr_timer = self.rnr_retry, self.rnr_timer
        attr.max_rd_atomic, attr.max_dest_rd_atomic = reads, 1
        qp.to_rts(attr)

    def send(self, wr_id, opcode, offset=0, length=64, to=0, rkey=None,
             flags=e.IBV_SEND_SIGNALED):
        wr = SendWR(wr_id=wr_id, opcode=opcode, num_sge=1, send_flags=flags,
                    sg=[SGE(self.mr.buf + offset, length, self.mr.lkey)])
        if opcode != e.IBV_WR_SEND:
            wr.set_wr_rdma(self.mr.rkey if rkey is None else rkey, self.mr.buf + to)
        self.qp.post_send(wr)

    def receive(self, count):
        for i in range(count):
            self.peer.post_recv(RecvWR(wr_id=i, num_sge=1,
                                       sg=[SGE(self.mr.buf, 64, self.mr.lkey)]))

    def poll(self, count):
        while count:
            count -= self.cq.poll(count)[0]
