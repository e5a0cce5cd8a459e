# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
The programs of Documentation/faults.md: `survivor.py CASE careless` has the bug, `careful` has not.
Exits with 0 if the result is right whatever the device did, with 1 if not.
"""
import os
import pathlib
import signal
import struct
import sys
import time
import zlib

import verbs_enums as e
from pyverbs.addr import AH, AHAttr, GlobalRoute
from pyverbs.cq import CQ, CompChannel
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsError, PyverbsRDMAError
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

TIME_LIMIT = 5  # seconds, in which all that comes has come
SIZE = 4096
RIGHTS = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
QKEY = 0x1234


class Side:
    """A QP with its CQs and a buffer."""

    def __init__(self, context, kind=e.IBV_QPT_RC):
        self.context = context
        self.pd = PD(context)
        self.send_cq, self.recv_cq = CQ(context, 64), CQ(context, 64)
        self.mr = MR(self.pd, SIZE, RIGHTS)
        self.kind = kind
        self.make()

    def make(self):
        caps = QPCap(max_send_wr=32, max_recv_wr=32)
        self.qp = QP(self.pd, QPInitAttr(qp_type=self.kind, scq=self.send_cq, rcq=self.recv_cq,
                                         cap=caps))

    def address(self):
        return AHAttr(gr=GlobalRoute(dgid=self.context.query_gid(1, 0)), is_global=1, port_num=1)

    def connect(self, peer_qpn, timeout=8, retry_cnt=7, rnr_retry=7):
        attr = QPAttr(port_num=1)
        attr.qp_access_flags = RIGHTS
        attr.ah_attr = self.address()
        attr.dest_qp_num, attr.path_mtu = peer_qpn, e.IBV_MTU_1024
        attr.timeout, attr.retry_cnt, attr.rnr_retry, attr.min_rnr_timer = timeout, retry_cnt, rnr_retry, 1
        attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
        self.qp.to_rts(attr)

    def as_datagrams(self):
        attr = QPAttr(port_num=1)
        attr.qkey = QKEY
        self.qp.to_rts(attr)

    def receive(self, wr_id, offset=0, length=64):
        self.qp.post_recv(RecvWR(wr_id=wr_id, num_sge=1,
                                 sg=[SGE(self.mr.buf + offset, length, self.mr.lkey)]))

    def post(self, wr_id, opcode=e.IBV_WR_SEND, data=None, length=8, to=None):
        """to: (address, rkey) of the peer's memory, or (AH, QPN)."""
        if data is not None:
            self.mr.write(data, len(data))
            length = len(data)
        wr = SendWR(wr_id=wr_id, opcode=opcode, num_sge=1,
                    sg=[SGE(self.mr.buf, length, self.mr.lkey)])
        if opcode != e.IBV_WR_SEND:
            wr.set_wr_rdma(to[1], to[0])
        elif to:
            wr.set_wr_ud(to[0], to[1], QKEY)
        self.qp.post_send(wr)

    def memory(self):
        return self.mr.buf, self.mr.rkey


def wait(cq, seconds=TIME_LIMIT):
    """The next completion; None: there is none."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        count, completions = cq.poll(1)
        if count:
            return completions[0]
        time.sleep(0.001)
    return None


def good(completion):
    return completion is not None and completion.status == e.IBV_WC_SUCCESS


def pair(**attributes):
    context = Context(name="simhca0")
    one, other = Side(context), Side(context)
    join(one, other, **attributes)
    return one, other


def join(one, other, **attributes):
    one.connect(other.qp.qp_num, **attributes)
    other.connect(one.qp.qp_num, **attributes)


def rejoin(one, other, **attributes):
    """A new connection, with what is posted gone."""
    for side in one, other:
        side.qp.close()
        while any(cq.poll(1)[0] for cq in (side.send_cq, side.recv_cq)):
            pass
        side.make()
    join(one, other, **attributes)


def datagrams():
    context = Context(name="simhca0")
    one, other = Side(context, e.IBV_QPT_UD), Side(context, e.IBV_QPT_UD)
    one.as_datagrams()
    other.as_datagrams()
    one.to = AH(one.pd, attr=one.address()), other.qp.qp_num
    other.to = AH(other.pd, attr=other.address()), one.qp.qp_num
    return one, other


def number_of(side, offset=0):
    """That of the datagram which was received there, behind its GRH."""
    return struct.unpack("<Q", side.mr.read(8, 40 + offset))[0]


# ------------------------------------------------------------------------------- the cases


def lost_event(careful):
    """An event that does not come: whoever only waits for events waits for ever."""
    context = Context(name="simhca0")
    one, other = Side(context), Side(context)
    channel = CompChannel(context)
    one.send_cq = CQ(context, 64, None, channel)
    one.make()
    join(one, other)
    one.send_cq.req_notify(False)
    one.post(1, e.IBV_WR_RDMA_WRITE, to=other.memory())
    if careful:  # looks at the CQ now and then, whether there was an event or not
        return good(wait(one.send_cq))
    signal.signal(signal.SIGALRM, lambda *_: os._exit(1))
    signal.alarm(2)
    channel.get_cq_event(one.send_cq)
    return good(wait(one.send_cq))


def rnr_storm(careful):
    """A receiver that is slow to post: a bounded rnr_retry ends the connection."""
    one, other = pair(rnr_retry=7 if careful else 2)
    other.receive(1)
    one.post(1)
    return good(wait(one.send_cq))


def send_queue_error(careful):
    """A UD QP whose send fails is in SQE, and flushes until it is taken back to RTS."""
    one, other = datagrams()
    other.receive(1, length=48)
    other.receive(2, offset=64, length=48)
    one.post(1, to=one.to)
    if good(wait(one.send_cq)):
        return False
    if careful:
        one.qp.modify(QPAttr(qp_state=e.IBV_QPS_RTS, cur_qp_state=e.IBV_QPS_SQE),
                      e.IBV_QP_STATE | e.IBV_QP_CUR_STATE)
    one.post(2, to=one.to)
    return good(wait(one.send_cq)) and good(wait(other.recv_cq))


def short_loss(careful):
    """Packets get lost: without retries the first ends the connection."""
    one, other = pair(retry_cnt=7 if careful else 0)
    one.post(1, e.IBV_WR_RDMA_WRITE, data=b"payload.", to=other.memory())
    return good(wait(one.send_cq)) and other.mr.read(8, 0) == b"payload."


def long_loss(careful):
    """The path is gone for longer than the retries: the connection has to be made anew."""
    one, other = pair(retry_cnt=1)
    one.post(1, e.IBV_WR_RDMA_WRITE, data=b"payload.", to=other.memory())
    if not good(wait(one.send_cq)) and careful:
        rejoin(one, other)
        one.post(1, e.IBV_WR_RDMA_WRITE, data=b"payload.", to=other.memory())
        wait(one.send_cq)
    return other.mr.read(8, 0) == b"payload."


def repeated_delivery(careful):
    """The answer was lost, and the message was not: who sends it again sends it twice."""
    one, other = pair(retry_cnt=1)
    for i in range(4):
        other.receive(i, offset=64 * i)
    handled, seen = 0, set()

    def handle():
        nonlocal handled
        while good(completion := wait(other.recv_cq, 0.2)):
            number = other.mr.read(8, 64 * completion.wr_id)
            handled += not (careful and number in seen)
            seen.add(number)

    one.post(1, data=struct.pack("<Q", 77))
    done = good(wait(one.send_cq))
    handle()
    if not done:
        rejoin(one, other)
        other.receive(0)
        one.post(1, data=struct.pack("<Q", 77))
        wait(one.send_cq)
        handle()
    return handled == 1


def corruption(careful):
    """Data that changed on its way, or in somebody's memory, with all checksums right."""
    one, other = pair()
    data = b"what was meant.."
    checked = data + struct.pack("<I", zlib.crc32(data))
    for _ in range(3):
        one.post(1, e.IBV_WR_RDMA_WRITE, data=checked, to=other.memory())
        if not good(wait(one.send_cq)):
            return False
        if not careful or other.mr.read(20, 0)[16:] == struct.pack("<I", zlib.crc32(other.mr.read(16, 0))):
            break
    return other.mr.read(16, 0) == data


def registration(careful):
    """Registering fails for want of memory, which a cache of regions may have."""
    context = Context(name="simhca0")
    pd = PD(context)
    cache = [MR(pd, SIZE, RIGHTS)]
    for _ in range(2):
        try:
            return MR(pd, SIZE, RIGHTS).lkey != 0
        except PyverbsRDMAError:
            if not careful:
                return False
            cache.pop().close()
    return False


def no_qp(careful):
    """Creating a QP fails, for now."""
    context = Context(name="simhca0")
    for _ in range(3 if careful else 1):
        try:
            Side(context)
            return True
        except PyverbsRDMAError:
            time.sleep(0.01)
    return False


def port_down(careful):
    """The link is away for a moment: all retries together have to take longer."""
    one, other = pair(timeout=14 if careful else 8, retry_cnt=7 if careful else 2)
    one.post(1, e.IBV_WR_RDMA_WRITE, to=other.memory())
    wait(one.send_cq)  # with it the port goes
    time.sleep(0.05)
    one.post(2, e.IBV_WR_RDMA_WRITE, data=b"payload.", to=other.memory())
    return good(wait(one.send_cq)) and other.mr.read(8, 0) == b"payload."


def read_too_early(careful):
    """A read that takes its time: its data are there when it completes, and not before."""
    one, other = pair()
    other.mr.write(b"payload.", 8)
    one.post(1, e.IBV_WR_RDMA_READ, to=other.memory())
    if careful:
        wait(one.send_cq)
    else:
        time.sleep(0.05)  # "it always was there by then"
    return one.mr.read(8, 0) == b"payload."


def buffer_reused(careful):
    """A buffer is the device's until the completion, though the data mostly have left before."""
    one, other = pair()
    other.receive(1)
    one.post(1, data=b"payload.")
    if careful:
        wait(one.send_cq)
    else:
        time.sleep(0.05)
    one.mr.write(b"anything", 8)
    return good(wait(other.recv_cq)) and other.mr.read(8, 0) == b"payload."


def lost_datagram(careful):
    """Datagrams get lost: what has to arrive is acknowledged, and sent again."""
    one, other = datagrams()
    for i in range(4):
        other.receive(i, length=48)
        one.receive(i, length=48)
    for _ in range(3):
        one.post(1, data=struct.pack("<Q", 7), to=one.to)
        wait(one.send_cq)
        if not careful:
            return good(wait(other.recv_cq, 0.5))
        if good(wait(other.recv_cq, 0.2)):
            other.post(1, to=other.to)
        if good(wait(one.recv_cq, 0.2)):
            return True
    return False


def double_datagram(careful):
    """Datagrams come twice: a number tells."""
    one, other = datagrams()
    for i in range(4):
        other.receive(i, offset=64 * i, length=48)
    taken, seen = 0, set()
    for number in 1, 2:
        one.post(number, data=struct.pack("<Q", number), to=one.to)
        wait(one.send_cq)
    while good(completion := wait(other.recv_cq, 0.3)):
        number = number_of(other, 64 * completion.wr_id)
        taken += not (careful and number in seen)
        seen.add(number)
    return taken == 2


def datagram_order(careful):
    """Datagrams overtake one another."""
    one, other = datagrams()
    for i in range(4):
        other.receive(i, offset=64 * i, length=48)
    for number in 1, 2, 3:
        one.post(number, data=struct.pack("<Q", number), to=one.to)
        wait(one.send_cq)
    got = [number_of(other, 64 * wait(other.recv_cq).wr_id) for _ in range(3)]
    return (sorted(got) if careful else got) == [1, 2, 3]


def flushed(careful):
    """One work request fails, and those behind it are flushed: completions, but not successes."""
    one, other = pair()
    todo, done = [1, 2, 3, 4], 0
    while todo:
        for number in todo:
            other.receive(number)
            one.post(number)
        completions = [wait(one.send_cq) for _ in todo]
        failed = [number for number, completion in zip(todo, completions) if not good(completion)]
        if not careful:
            break
        if failed:
            rejoin(one, other)
        done += len(todo) - len(failed)
        todo = failed
    if not careful:  # counts completions
        done = sum(good(completion) for completion in completions)
    return done == 4


def slow_peer(careful):
    """Memory, or a peer, that is slow, is not dead."""
    one, other = pair()
    one.post(1, e.IBV_WR_RDMA_WRITE, length=SIZE, to=other.memory())
    return good(wait(one.send_cq, TIME_LIMIT if careful else 0.1))


def access_refused(careful):
    """The peer's key is not valid any more: it has to be asked for the new one, on a new connection."""
    one, other = pair()
    one.post(1, e.IBV_WR_RDMA_WRITE, data=b"payload.", to=other.memory())
    completion = wait(one.send_cq)
    if careful and completion.status == e.IBV_WC_REM_ACCESS_ERR:
        other.mr.close()
        other.mr = MR(other.pd, SIZE, RIGHTS)
        rejoin(one, other)
    one.post(2, e.IBV_WR_RDMA_WRITE, data=b"payload.", to=other.memory())
    return good(wait(one.send_cq)) and other.mr.read(8, 0) == b"payload."


def device_fatal(careful):
    """The device is reset: all that was made of it is void, and it has to be opened anew."""
    one, other = pair()
    for _ in range(2 if careful else 1):
        try:
            one.post(1, e.IBV_WR_RDMA_WRITE, data=b"payload.", to=other.memory())
            if good(wait(one.send_cq, 1)):
                time.sleep(0.2)  # with it the device goes
                one.post(2, e.IBV_WR_RDMA_WRITE, data=b"payload.", to=other.memory())
                if good(wait(one.send_cq, 1)):
                    return True
        except PyverbsError:
            pass
        if careful:
            one, other = pair()
    return False


# ----------------------------------------------------------------------- of two processes


def child_of(work, count=1):
    """A process that runs work(sides, to) with QPs, and their peers: pid, sides, to. to: its memory, for each."""
    down, up = os.pipe(), os.pipe()
    pid = os.fork()
    mine, theirs = (down[0], up[1]) if not pid else (up[0], down[1])
    context = Context(name="simhca0")
    sides, to = [Side(context) for _ in range(count)], []
    for side in sides:
        os.write(theirs, struct.pack("<IQI", side.qp.qp_num, side.mr.buf, side.mr.rkey))
    for side in sides:
        qpn, address, rkey = struct.unpack("<IQI", os.read(mine, 16))
        side.connect(qpn, timeout=8, retry_cnt=3)
        to.append((address, rkey))
    os.write(theirs, b"!")
    os.read(mine, 1)
    if not pid:
        work(sides, to)
        os._exit(0)
    return pid, sides, to


def partial_write(careful):
    """Who writes can end in between: a flag says that the data are there, so it comes last."""
    def write(sides, to):
        (side,), ((address, rkey),) = sides, to
        order = [(8, b"payload."), (0, b"complete")]
        for offset, data in order if careful else reversed(order):
            side.post(1, e.IBV_WR_RDMA_WRITE, data=data, to=(address + offset, rkey))
            wait(side.send_cq)
        time.sleep(TIME_LIMIT)

    pid, (side,), _ = child_of(write)
    os.waitpid(pid, 0)  # killed at its second write
    time.sleep(0.1)
    return side.mr.read(8, 0) != b"complete" or side.mr.read(8, 8) == b"payload."


def dead_peer(careful):
    """The peer is killed: whoever only waits for its messages is told nothing."""
    def serve(sides, _):
        asked, answers = sides
        asked.receive(1)
        wait(asked.recv_cq)
        time.sleep(TIME_LIMIT)  # it is dead before it answers
        answers.post(1)

    # It may die before it has acknowledged what it is asked, which that connection tells.
    pid, (asks, side), (_, to) = child_of(serve, 2)
    side.receive(1)
    asks.post(1)
    wait(asks.send_cq)
    answer = wait(side.recv_cq, 0.5)
    if answer is None and careful:  # asks whether it is there
        side.post(2, e.IBV_WR_RDMA_WRITE, to=to)
        answer = wait(side.send_cq)
    os.waitpid(pid, 0)
    return answer is not None


if __name__ == "__main__":
    pathlib.Path("/proc/self/comm").write_text("survivor")
    sys.exit(0 if globals()[sys.argv[1]](sys.argv[2] == "careful") else 1)
