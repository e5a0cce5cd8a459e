# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
CQs with completion channels, by Debian's pyverbs and libefa: events one by one and as fast as they come, none
for what was not armed, and none left of a CQ that has gone. Prints a line for each; then waits in
ibv_get_cq_event() until another program of this kind, called with its address, sends to it.

    efa_events.py [QPN]
"""
import os
import select
import sys
import time

import verbs_enums as e
import pyverbs.providers.efa.efa_enums as efa_e
import pyverbs.providers.efa.efadv as efa
from pyverbs.addr import AH, AHAttr, GlobalRoute
from pyverbs.cq import CQ, CompChannel
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QPAttr, QPCap, QPInitAttrEx
from pyverbs.wr import RecvWR, SGE

QKEY = 0x11111111
TIME_LIMIT = 20  # seconds
MESSAGES = 300


class End:
    """A QP whose completions raise events."""

    def __init__(self, context, channel, fd):
        self.context = context
        self.channel, self.fd = channel, fd
        self.pd = PD(context)
        self.cq = CQ(context, 64, None, self.channel)
        self.mr = MR(self.pd, 4096, e.IBV_ACCESS_LOCAL_WRITE)
        attr = QPInitAttrEx(cap=QPCap(max_recv_wr=32, max_send_wr=32, max_recv_sge=1, max_send_sge=1), pd=self.pd,
                            qp_type=e.IBV_QPT_DRIVER, scq=self.cq, rcq=self.cq,
                            send_ops_flags=e.IBV_QP_EX_WITH_SEND,
                            comp_mask=e.IBV_QP_INIT_ATTR_PD | e.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
        srd = efa.EfaQPInitAttr()
        srd.driver_qp_type = efa_e.EFADV_QP_DRIVER_TYPE_SRD
        self.qp = efa.SRDQPEx(context, attr, srd)
        state = QPAttr(port_num=1)
        state.qkey, state.pkey_index = QKEY, 0
        self.qp.to_rts(state)
        route = GlobalRoute(dgid=context.query_gid(1, 0), sgid_index=0)
        self.ah = AH(self.pd, attr=AHAttr(gr=route, is_global=1, port_num=1))

    def close(self):
        for part in self.qp, self.ah, self.cq, self.mr, self.pd:
            part.close()

    def recv(self):
        self.qp.post_recv(RecvWR(sg=[SGE(self.mr.buf, 64, self.mr.lkey)], num_sge=1))

    def send(self, qpn):
        self.qp.wr_start()
        self.qp.wr_id, self.qp.wr_flags = 1, e.IBV_SEND_SIGNALED
        self.qp.wr_send()
        self.qp.wr_set_ud_addr(self.ah, qpn, QKEY)
        self.qp.wr_set_sge(SGE(self.mr.buf, 64, self.mr.lkey))
        self.qp.wr_complete()

    def has_event(self, seconds):
        return bool(select.select([self.fd], [], [], seconds)[0])

    def wait(self):
        """
        As a program that sleeps does: takes the event, arms again, and then polls all there is. The device may see
        that it is armed before it sees that all was polled: that raises an event for nothing new.
        """
        found = 0
        while not found:
            self.channel.get_cq_event(self.cq)
            self.cq.ack_events(1)
            self.cq.req_notify()
            found = self.poll()
        return found

    def has_nothing(self):
        """Whether no completion is left, nor an event, but for one of what has been polled."""
        while self.has_event(0.2):
            self.channel.get_cq_event(self.cq)
            self.cq.ack_events(1)
            if self.poll():
                return False
            self.cq.req_notify()
        return not self.poll()

    def poll(self):
        found = 0
        while True:
            count, wcs = self.cq.poll(16)
            if not count:
                return found
            if any(wc.status != e.IBV_WC_SUCCESS for wc in wcs):
                raise SystemExit(f'a completion failed: {wcs}')
            found += count


def expect(what, is_so):
    print(what, 'ok' if is_so else 'WRONG', flush=True)


def sockets():
    found = set()
    for fd in os.listdir('/proc/self/fd'):
        try:
            if os.readlink(f'/proc/self/fd/{fd}').startswith('socket:'):
                found.add(int(fd))
        except FileNotFoundError:
            pass
    return found


def end_of(context):
    """With a channel of its own, whose descriptor pyverbs does not tell."""
    before = sockets()
    channel = CompChannel(context)
    fd, = sockets() - before
    return End(context, channel, fd)


def one_by_one(here, there):
    for end in here, there:
        end.cq.req_notify()
    for _ in range(3):
        there.recv()
        here.send(there.qp.qp_num)
        if here.wait() != 1 or there.wait() != 1:
            return False
    return here.has_nothing() and there.has_nothing()


def not_armed(here, there):
    """One that has been taken, and not armed for again, is the last: here is armed still, and is drained."""
    there.recv()
    here.send(there.qp.qp_num)
    here.channel.get_cq_event(here.cq)
    there.channel.get_cq_event(there.cq)
    here.cq.ack_events(1)
    there.cq.ack_events(1)
    time.sleep(0.1)
    there.recv()
    here.send(there.qp.qp_num)
    if here.has_event(0.2) or there.has_event(0):
        return False
    # Arming with completions that nobody has polled raises it at once.
    here.cq.req_notify()
    there.cq.req_notify()
    return here.wait() == 2 and there.wait() == 2


def fast(here, there):
    """Both sleep whenever there is nothing: none that is missed shows as a program that sleeps for ever."""
    sent = got = posted = done = 0
    while done < MESSAGES or got < MESSAGES:
        while posted < MESSAGES and posted - got < 16:
            there.recv()
            posted += 1
        while sent < posted and sent - done < 16:
            here.send(there.qp.qp_num)
            sent += 1
        if done < sent:
            done += here.wait()
        if got < sent:
            got += there.wait()
    return sent == done == got == MESSAGES


def left(context, there):
    """A CQ that goes while nobody has read its event takes that along."""
    first = end_of(context)
    second = End(context, first.channel, first.fd)
    first.cq.req_notify()
    there.recv()
    first.send(there.qp.qp_num)
    if not first.has_event(TIME_LIMIT):
        return False
    first.close()
    if second.has_event(0):
        return False
    second.cq.req_notify()
    there.recv()
    second.send(there.qp.qp_num)
    return second.wait() == 1


def main():
    context = Context(name='simhca0')
    here, there = end_of(context), end_of(context)
    if len(sys.argv) > 1:
        here.cq.req_notify()
        here.send(int(sys.argv[1]))
        expect('sent', here.wait() == 1)
        return
    expect('one by one', one_by_one(here, there))
    expect('not armed', not_armed(here, there))
    expect('fast', fast(here, there))
    there.poll()
    expect('left', left(context, there))
    last = end_of(context)
    last.recv()
    last.cq.req_notify()
    print('asleep', last.qp.qp_num, flush=True)
    expect('awake', last.wait() == 1)


main()
