# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Makes objects of each kind, says in JSON what verbs say of them, and holds them until a signal."""
import json
import os
import signal
import sys

import verbs_enums as e
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr

ACCESS = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_READ


def main():
    link_layer, count = sys.argv[1], int(sys.argv[2])
    context = Context(name="simhca0")
    pd = PD(context)
    cq = CQ(context, 77)
    mrs = [MR(pd, 12345, ACCESS), MR(pd, 1 << 20, ACCESS | e.IBV_ACCESS_ON_DEMAND)]
    srqs = [SRQ(pd, SrqInitAttr(SrqAttr(max_wr=16))) for _ in range(2)]

    def qp(kind=e.IBV_QPT_RC, srq=None):
        return QP(pd, QPInitAttr(qp_type=kind, scq=cq, rcq=cq, srq=srq, cap=QPCap(max_recv_wr=4)))

    reset, ready, datagrams = qp(), qp(), qp(e.IBV_QPT_UD)
    with_srq = [qp(srq=srqs[0]) for _ in range(3)]
    attr = QPAttr(port_num=1)
    attr.dest_qp_num, attr.rq_psn, attr.sq_psn = reset.qp_num, 0x123, 0x456
    attr.path_mtu, attr.timeout, attr.max_rd_atomic = e.IBV_MTU_1024, 14, 1
    if link_layer == "ethernet":
        attr.ah_attr = AHAttr(gr=GlobalRoute(dgid=context.query_gid(1, 0)), is_global=1, port_num=1)
    else:
        attr.ah_attr = AHAttr(dlid=context.query_port(1).lid, port_num=1)
    ready.to_rts(attr)
    many = [qp() for _ in range(count)]
    asked, _ = ready.query(e.IBV_QP_STATE | e.IBV_QP_DEST_QPN | e.IBV_QP_RQ_PSN | e.IBV_QP_SQ_PSN)
    print(json.dumps({
        "pid": os.getpid(),
        "comm": open("/proc/self/comm").read().strip(),
        "cqe": cq.cqe,
        "mr": [{"mrlen": length, "lkey": mr.lkey, "rkey": mr.rkey}
               for mr, length in zip(mrs, (12345, 1 << 20))],
        "srq": [[one.qp_num for one in with_srq], []],
        "ready": {"lqpn": ready.qp_num, "rqpn": asked.dest_qp_num, "rq-psn": asked.rq_psn,
                  "sq-psn": asked.sq_psn},
        "reset": reset.qp_num,
        "ud": datagrams.qp_num,
        "all": [one.qp_num for one in (reset, ready, datagrams, *with_srq, *many)],
    }), flush=True)
    signal.pause()


main()
