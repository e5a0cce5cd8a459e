# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Kills the daemon that it runs on, in one of several situations; says "survived" at the end."""
import contextlib
import ctypes
import faulthandler
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import types

import verbs_enums as e
from pyverbs.addr import AH
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr, SrqInitAttrEx
from pyverbs.wr import RecvWR

from extended_cq import make_cq, take
from harness import (FLUSH, PD, PORT, QKEY, REASON, SEND, UD, WRITE, Channel,
                     Device, Side, connect, poll, poll_nothing)
from programs import SIMHCA

PR_SET_PDEATHSIG = 1
AT_ONCE = 20  # seconds: what hangs takes longer, and what does not takes so long on a busy machine at most

case, how = sys.argv[1], int(sys.argv[2])
faulthandler.dump_traceback_later(100, exit=True)
runtime = os.environ['SIMHCA_RUNTIME_DIR']
with open(os.path.join(runtime, 'pid'), encoding='ascii') as pid_file:
    daemon = int(pid_file.read())


def kill():
    os.kill(daemon, how)


def fails(call):
    """The call returns, with an error."""
    start = time.monotonic()
    try:
        call()
    except PyverbsRDMAError:
        assert time.monotonic() - start < AT_ONCE
        return
    raise AssertionError('a call succeeded without a daemon')


def all_flushed(completions, wr_ids):
    assert sorted(wc.wr_id for wc in completions) == sorted(wr_ids), completions
    for wc in completions:
        assert wc.status == FLUSH, wc
        assert wc.vendor_err == REASON['DEVICE_GONE'], wc


def idle():
    device = Device()
    kill()
    assert device.event() == e.IBV_EVENT_DEVICE_FATAL
    device.no_event(0.1)
    device.close()


def traffic():
    client, server = Side(send_wr=1000, cqe=2000), Side()
    connect(client, server)
    timer = threading.Timer(0.1, kill)
    timer.start()
    completed = []
    posted = 0
    with contextlib.suppress(PyverbsRDMAError):  # the posting that finds the device gone
        while True:
            while posted - len(completed) < 100:
                client.send(WRITE, client.region.sge(0, 60000), to=server.region.at(),
                            wr_id=posted)
                posted += 1
            completed += client.scq.poll(100)[1]
    completed += poll(client.scq, posted - len(completed))
    assert [wc.wr_id for wc in completed] == list(range(posted))
    statuses = [wc.status for wc in completed]
    assert statuses == [0] * statuses.count(0) + [FLUSH] * statuses.count(FLUSH)
    poll_nothing(client.scq)
    timer.join()
    for side in (client, server):
        assert side.device.event() == e.IBV_EVENT_DEVICE_FATAL


def datagrams():
    """Each receive completes once, that of the datagram that was under way as well."""
    client, server = Side(UD), Side(UD)
    for side in (client, server):
        side.start()
    to = AH(client.pd, attr=client.device.address(server.device)), server.qp.qp_num, QKEY
    timer = threading.Timer(0.1, kill)
    timer.start()
    received, posted, sent = [], 0, 0
    with contextlib.suppress(PyverbsRDMAError):  # the posting that finds the device gone
        while True:
            while posted - len(received) < 50:
                server.recv(wr_id=posted)
                posted += 1
            while sent < 20:
                client.send(SEND, client.region.sge(0, 4000), ud=to)
                sent += 1
            sent -= client.scq.poll(20)[0]
            received += server.rcq.poll(20)[1]
    received += poll(server.rcq, posted - len(received))
    assert sorted(wc.wr_id for wc in received) == list(range(posted))
    statuses = [wc.status for wc in received]
    assert statuses == [0] * statuses.count(0) + [FLUSH] * statuses.count(FLUSH)
    poll_nothing(server.rcq)
    timer.join()


def waiting():
    client, server = Side(), Side()
    connect(client, server)
    for number in range(5):
        client.send(SEND, client.region.sge(0, 8), wr_id=number)  # no receive is there
        client.recv(wr_id=100 + number)
    time.sleep(0.05)
    kill()
    assert client.device.event() == e.IBV_EVENT_DEVICE_FATAL
    sent, received = poll(client.scq, 5), poll(client.rcq, 5)
    all_flushed(sent, range(5))
    all_flushed(received, range(100, 105))
    poll_nothing(client.scq)
    poll_nothing(client.rcq)
    fails(lambda: client.send(SEND, client.region.sge(0, 8)))
    fails(client.recv)
    client.qp.close()
    server.qp.close()


def died_with(home, shared):
    """A QP with that SRQ, in which three receives wait when the daemon dies."""
    client, server = Side(), Side(device=home.device, pd=home.pd, srq=shared)
    connect(client, server)
    for number in range(3):
        shared.post_recv(RecvWR(number, 1, [home.region.sge()]))
    kill()
    assert home.device.event() == e.IBV_EVENT_DEVICE_FATAL
    return server


def srq():
    home = Side()
    shared = SRQ(home.pd, SrqInitAttr(SrqAttr(max_wr=10)))
    server = died_with(home, shared)
    all_flushed(poll(server.rcq, 3), range(3))
    poll_nothing(server.rcq)
    fails(lambda: shared.post_recv(RecvWR(2, 1, [home.region.sge()])))
    fails(lambda: shared.modify(SrqAttr(srq_limit=1), e.IBV_SRQ_LIMIT))
    server.qp.close()
    shared.close()


def srq_with_cq():
    """What waits in it is flushed where it would have completed."""
    home = Side()
    attr = SrqInitAttrEx(max_wr=10)
    attr.comp_mask = (e.IBV_SRQ_INIT_ATTR_TYPE | e.IBV_SRQ_INIT_ATTR_PD | e.IBV_SRQ_INIT_ATTR_CQ |
                      e.IBV_SRQ_INIT_ATTR_TM)
    attr.srq_type = e.IBV_SRQT_TM
    attr.pd = home.pd
    attr.cq = cq = CQ(home.ctx, 10)
    attr.max_num_tags = attr.max_ops = 4
    shared = SRQ(home.ctx, attr)
    server = died_with(home, shared)
    poll_nothing(server.rcq)
    all_flushed(poll(cq, 3), range(3))
    poll_nothing(cq)
    server.qp.close()
    shared.close()


def extended():
    probe = Side()
    side = Side(device=probe.device, pd=probe.pd, scq=make_cq(probe.ctx), rcq=make_cq(probe.ctx))
    peer = Side()
    connect(side, peer)
    side.recv(wr_id=7)
    side.send(SEND, side.region.sge(0, 8), wr_id=8)
    time.sleep(0.02)
    kill()
    assert side.device.event() == e.IBV_EVENT_DEVICE_FATAL
    for cq, wr_id in ((side.rcq, 7), (side.scq, 8)):
        wc = take(cq)[0]
        assert (wc['wr_id'], wc['status']) == (wr_id, FLUSH)
        assert wc['vendor_err'] == REASON['DEVICE_GONE']
    side.qp.close()


def blocked():
    """A program that sleeps on the async descriptor, as most have a thread for."""
    device = Device()
    channel = Channel(device.ctx)
    cq = CQ(device.ctx, 10, None, channel.channel)
    cq.req_notify()
    child = os.fork()
    if not child:
        time.sleep(0.2)
        kill()
        os._exit(0)
    event = device.ctx.get_async_event()
    assert event.event_type == e.IBV_EVENT_DEVICE_FATAL
    event.ack()
    os.waitpid(child, 0)
    cq.close()
    channel.close()
    device.close()


def asleep():
    """A program that sleeps on a completion channel, of which a peer, that is stopped, has the
    device's end as well."""
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    child = os.fork()
    mine = ends[1 if child else 0]
    if not child:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    device = Device()
    channel = Channel(device.ctx)
    cq = CQ(device.ctx, 10, None, channel.channel)
    side = Side(device=device, rcq=cq)
    mine.send(str(side.qp.qp_num).encode())
    qpn = int(mine.recv(100))
    side.start(types.SimpleNamespace(device=device, qp=types.SimpleNamespace(qp_num=qpn)))
    mine.send(b'ready')
    mine.recv(100)
    while not child:
        mine.recv(100)
        side.send(SEND, side.region.sge(0, 8))
    # Until it has raised an event by itself: while the device has the peer's turn, that raises it.
    for _ in range(100):
        side.recv(side.region.sge(0, 8))
        cq.req_notify()
        mine.send(b'armed')
        channel.event(cq)
        poll(cq)
        shown = json.loads(subprocess.run([SIMHCA, 'qp', '--json'], text=True, capture_output=True,
                                          check=True).stdout)
        if [qp for qp in shown if qp['lqpn'] == qpn][0]['fast_path']['events'] > 0:
            break
    else:
        raise AssertionError('each event was the device\'s')
    os.kill(child, signal.SIGSTOP)
    os.waitpid(child, os.WUNTRACED)
    cq.req_notify()
    killer = os.fork()
    if not killer:
        time.sleep(0.2)
        kill()
        os._exit(0)
    try:
        channel.channel.get_cq_event(cq)  # nothing else runs meanwhile
        raise AssertionError('an event came from no device')
    except PyverbsRDMAError:
        pass
    side.qp.close()
    cq.close()
    os.kill(child, signal.SIGKILL)
    for process in (child, killer):
        os.waitpid(process, 0)


def small():
    """What came before the end is there when it is polled, by device and fast path."""
    client, server = Side(), Side()
    connect(client, server)
    client.region.write(b'small...' * 8)
    for wr_id in range(8):
        server.recv(server.region.sge(wr_id * 64, 64), wr_id=wr_id)
        client.send(SEND, client.region.sge(0, 64))
        assert poll(client.scq)[0].status == 0
    kill()
    assert server.device.event() == e.IBV_EVENT_DEVICE_FATAL
    time.sleep(0.5)  # it ends in parts
    for wc in poll(server.rcq, 8):
        assert wc.status == 0
        assert server.region.read(64, wc.wr_id * 64) == b'small...' * 8, wc.wr_id


def control():
    side = Side()
    side.start(side)
    kill()
    assert side.device.event() == e.IBV_EVENT_DEVICE_FATAL
    fails(lambda: PD(side.ctx))
    fails(lambda: CQ(side.ctx, 10))
    fails(lambda: MR(side.pd, 4096, 7, address=side.region.addr))
    fails(lambda: side.region.mr.rereg(e.IBV_REREG_MR_CHANGE_ACCESS, access=1))
    fails(lambda: side.scq.resize(10))
    fails(lambda: side.to(e.IBV_QPS_ERR))
    fails(lambda: side.qp.query(e.IBV_QP_STATE))
    fails(lambda: Side(device=side.device, pd=side.pd))
    fails(lambda: side.ctx.query_port(PORT))
    side.qp.close()
    side.region.close()
    side.scq.close()
    side.rcq.close()
    side.pd.close()
    side.device.close()
    fails(lambda: Context(name='simhca0'))


signal.alarm(110)
globals()[case]()
print('survived', flush=True)
os._exit(0)
