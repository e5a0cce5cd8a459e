# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Makes CQs and an SRQ with something in them, says in JSON what, and holds them until a signal."""
import json
import os
import signal

import verbs_enums as e
from pyverbs.cq import CQ, CompChannel
from pyverbs.device import Context
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

context = Context(name="simhca0")
pd = PD(context)
mr = MR(pd, 64, e.IBV_ACCESS_LOCAL_WRITE)
channel = CompChannel(context)
solicited, plain = CQ(context, 50, None, channel, 0), CQ(context, 20)
solicited.req_notify(solicited_only=True)
srq = SRQ(pd, SrqInitAttr(SrqAttr(max_wr=16)))
caps = QPCap(max_send_wr=8, max_recv_wr=8)
pair = [QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=plain, rcq=solicited, srq=one, cap=caps))
        for one in (None, srq)]
for qp, peer in (pair, pair[::-1]):
    attr = QPAttr(port_num=1)
    attr.ah_attr = AHAttr(gr=GlobalRoute(dgid=context.query_gid(1, 0)), is_global=1, port_num=1)
    attr.dest_qp_num, attr.path_mtu, attr.rnr_retry, attr.timeout = peer.qp_num, 3, 7, 14
    attr.min_rnr_timer = 26  # 164 ms
    qp.to_rts(attr)
sge = [SGE(mr.buf, 8, mr.lkey)]
for i in range(5):
    srq.post_recv(RecvWR(wr_id=i, num_sge=1, sg=sge))
for i in range(3):
    pair[0].post_recv(RecvWR(wr_id=i, num_sge=1, sg=sge))
for i in range(7):  # the SRQ has receives for five of them
    pair[0].post_send(SendWR(wr_id=i, opcode=e.IBV_WR_SEND, num_sge=1, sg=sge))
while plain.poll(1)[0] < 1:
    pass
print(json.dumps({"pid": os.getpid(), "qps": [qp.qp_num for qp in pair]}), flush=True)
signal.pause()
