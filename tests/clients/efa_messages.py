# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
Two SRD QPs of one program, by Debian's pyverbs and libefa: messages and a read with their data checked, and
each way in which a work request can fail. Prints a line for each; then waits for SIGUSR1, and sends once
more.
"""
import signal
import socket
import time

import verbs_enums as e
import pyverbs.providers.efa.efa_enums as efa_e
import pyverbs.providers.efa.efadv as efa
from pyverbs.addr import AH, GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QPAttr, QPCap, QPInitAttrEx
from pyverbs.wr import RecvWR, SGE

QKEY = 0x11111111
ROOM = 8192
TIME_LIMIT = 20  # seconds


class End:
    """A context with a QP that is ready."""

    def __init__(self, name, rnr_retry=None):
        self.context = Context(name=name)
        self.pd = PD(self.context)
        self.cq = CQ(self.context, 64)
        self.mr = MR(self.pd, ROOM, e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_READ)
        send_ops = e.IBV_QP_EX_WITH_SEND | e.IBV_QP_EX_WITH_SEND_WITH_IMM | e.IBV_QP_EX_WITH_RDMA_READ
        attr = QPInitAttrEx(cap=QPCap(max_recv_wr=8, max_send_wr=8, max_recv_sge=1, max_send_sge=1), pd=self.pd,
                            qp_type=e.IBV_QPT_DRIVER, scq=self.cq, rcq=self.cq, send_ops_flags=send_ops,
                            comp_mask=e.IBV_QP_INIT_ATTR_PD | e.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
        srd = efa.EfaQPInitAttr()
        srd.driver_qp_type = efa_e.EFADV_QP_DRIVER_TYPE_SRD
        self.qp = efa.SRDQPEx(self.context, attr, srd)
        state = QPAttr(port_num=1)
        state.qkey, state.pkey_index = QKEY, 0
        self.qp.to_rtr(state)
        state.qp_state = e.IBV_QPS_RTS
        mask = e.IBV_QP_STATE | e.IBV_QP_SQ_PSN
        if rnr_retry is not None:
            state.rnr_retry = rnr_retry
            mask |= e.IBV_QP_RNR_RETRY
        self.qp.modify(state, mask)
        self.number = 0

    def address(self, gid):
        return AH(self.pd, attr=AHAttr(gr=GlobalRoute(dgid=gid, sgid_index=0), is_global=1, port_num=1))

    def gid(self):
        return self.context.query_gid(1, 0)

    def recv(self, length=ROOM, lkey=None):
        self.number += 1
        self.qp.post_recv(RecvWR(wr_id=self.number, sg=[SGE(self.mr.buf, length, lkey or self.mr.lkey)], num_sge=1))

    def send(self, ah, qpn, length, *, qkey=QKEY, lkey=None, imm=None, read=None):
        """read: the rkey and address to read from."""
        self.number += 1
        self.qp.wr_start()
        self.qp.wr_id, self.qp.wr_flags = self.number, e.IBV_SEND_SIGNALED
        if read:
            self.qp.wr_rdma_read(*read)
        elif imm is None:
            self.qp.wr_send()
        else:
            self.qp.wr_send_imm(imm)
        self.qp.wr_set_ud_addr(ah, qpn, qkey)
        self.qp.wr_set_sge(SGE(self.mr.buf, length, lkey or self.mr.lkey))
        self.qp.wr_complete()

    def done(self):
        end = time.monotonic() + TIME_LIMIT
        while time.monotonic() < end:
            count, wcs = self.cq.poll()
            if count:
                return wcs[0]
        raise SystemExit('nothing has completed')


def expect(what, is_so):
    print(what, 'ok' if is_so else 'WRONG', flush=True)


def exchange(here, there, ah, length, imm=None):
    text = 'x' * (length - 1) + 'y' if length else ''
    there.recv()
    here.mr.write(text, length)
    here.send(ah, there.qp.qp_num, length, imm=imm)
    sent, got = here.done(), there.done()
    return (sent.status == got.status == e.IBV_WC_SUCCESS and got.byte_len == length and
            got.src_qp == here.qp.qp_num and there.mr.read(length, 0).decode() == text and
            (imm is None or socket.ntohl(got.imm_data) == imm))


def main():
    here, there = End('simhca0', rnr_retry=1), End('simhca0')
    ah = here.address(there.gid())
    qpn = there.qp.qp_num
    for length in (0, 1, 33, ROOM):
        expect(f'send {length}', exchange(here, there, ah, length))
    expect('immediate', exchange(here, there, ah, 64, imm=0x1234))

    there.mr.write('z' * ROOM, ROOM)
    here.send(ah, qpn, ROOM, read=(there.mr.rkey, there.mr.buf))
    print('unknown peer', here.done().vendor_err, flush=True)
    back = there.address(here.gid())
    here.send(ah, qpn, ROOM, read=(there.mr.rkey, there.mr.buf))
    expect('read', here.done().status == e.IBV_WC_SUCCESS and here.mr.read(ROOM, 0) == b'z' * ROOM)

    failures = {
        'lkey': dict(lkey=0x123400),
        'rkey': dict(read=(0x123400, there.mr.buf)),
        'past the end': dict(read=(there.mr.rkey, there.mr.buf + 1), length=ROOM),
        'QPN': dict(qpn=4000),
        'qkey': dict(qkey=1),
        'not ready': {},
    }
    for what, how in failures.items():
        here.send(ah, how.pop('qpn', qpn), how.pop('length', 64), **how)
        print(what, here.done().vendor_err, flush=True)
    there.recv(length=10)
    here.send(ah, qpn, 64)
    print('too long', here.done().vendor_err, there.done().vendor_err, flush=True)
    there.recv(lkey=0x123400)
    here.send(ah, qpn, 64)
    print('lkey of the receive', here.done().vendor_err, there.done().vendor_err, flush=True)
    nobody = here.address(GID("fe80:0000:0000:0000:0000:0000:0000:0001"))
    here.send(nobody, qpn, 64)
    print('address', here.done().vendor_err, flush=True)

    # A receive that comes later: there has no limit of retries.
    there.send(back, here.qp.qp_num, 64)
    time.sleep(0.1)
    here.recv()
    expect('later', here.done().status == there.done().status == e.IBV_WC_SUCCESS)

    here.recv()
    here.qp.modify(QPAttr(qp_state=e.IBV_QPS_ERR), e.IBV_QP_STATE)
    print('flushed', here.done().vendor_err, flush=True)

    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    other = End('simhca0')
    onward = other.address(there.gid())
    print('asleep', flush=True)
    signal.sigwait([signal.SIGUSR1])
    expect('awake', exchange(other, there, onward, 100))


if __name__ == '__main__':
    main()
