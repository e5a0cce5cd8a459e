# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Connects so many pairs of QPs of its own, writes once by each, and prints what the daemon counts."""
import json
import subprocess
import sys

import verbs_enums as e
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, SendWR

simhca, count = sys.argv[1], int(sys.argv[2])
context = Context(name="simhca0")
pd = PD(context)
mr = MR(pd, 128, e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE)
kept = []


def connect(qp, peer):
    attr = QPAttr(port_num=1)
    attr.qp_access_flags = e.IBV_ACCESS_REMOTE_WRITE
    attr.ah_attr = AHAttr(gr=GlobalRoute(dgid=context.query_gid(1, 0)), is_global=1, port_num=1)
    attr.dest_qp_num, attr.path_mtu, attr.timeout = peer.qp_num, 3, 14
    qp.to_rts(attr)


for i in range(count):
    cq = CQ(context, 16)
    one, other = (QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=QPCap(max_send_wr=8, max_recv_wr=8)))
                  for _ in range(2))
    connect(other, one)
    connect(one, other)
    kept += [cq, one, other]
    mr.write(bytes([i + 1]) * 8, 8)
    wr = SendWR(wr_id=i, opcode=e.IBV_WR_RDMA_WRITE, num_sge=1, sg=[SGE(mr.buf, 8, mr.lkey)],
                send_flags=e.IBV_SEND_SIGNALED)
    wr.set_wr_rdma(mr.rkey, mr.buf + 64)
    one.post_send(wr)
    polled, completions = cq.poll(1)
    while not polled:
        polled, completions = cq.poll(1)
    assert completions[0].status == e.IBV_WC_SUCCESS, completions[0]
    assert mr.read(8, 64) == bytes([i + 1]) * 8
status = subprocess.run([simhca, "status", "--json"], stdout=subprocess.PIPE, check=True).stdout
print(json.dumps(json.loads(status)["devices"][0]["counts"]))
