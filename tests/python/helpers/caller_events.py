# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Two programs of which one sleeps until the other sends; prints `simhca qp` of the sender's QP."""
import json
import os
import signal
import subprocess
import sys
import time
import types

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from pyverbs.cq import CQ  # noqa: E402
from harness import SEND, Channel, Device, Side, poll_ok, readable  # noqa: E402
from programs import SIMHCA  # noqa: E402

ROUNDS = 20

to_parent, to_child = os.pipe(), os.pipe()
child = os.fork()
signal.alarm(60)
for end in (to_parent[1], to_child[0]) if child else (to_child[1], to_parent[0]):
    os.close(end)
reader = os.fdopen((to_child if not child else to_parent)[0], 'r')
writer = os.fdopen((to_parent if not child else to_child)[1], 'w')


def tell(**what):
    writer.write(json.dumps(what) + '\n')
    writer.flush()


def hear():
    return json.loads(reader.readline())


device = Device()
channel = Channel(device.ctx)
cq = CQ(device.ctx, 100, None, channel.channel)
side = Side(device=device, **{'scq' if child else 'rcq': cq})
tell(qpn=side.qp.qp_num)
other = hear()
if not child:
    hear()
side.start(types.SimpleNamespace(device=device, qp=types.SimpleNamespace(qp_num=other['qpn'])))
if child:
    tell()
for n in range(ROUNDS + 3):
    side.recv(side.region.sge(64 * n, 64))
tell()
hear()


def receive():
    """Each message finds this end asleep, or about to."""
    for _ in range(ROUNDS):
        cq.req_notify()
        tell()
        channel.event(cq)
        channel.silent(0)
        poll_ok(cq)


def send():
    for _ in range(ROUNDS):
        cq.req_notify()
        hear()
        side.send(SEND, side.region.sge(0, 64))
        channel.event(cq)
        channel.silent(0)
        poll_ok(cq)


def destroyed():
    """Seconds that it took to destroy the CQ."""
    start = time.monotonic()
    side.qp.close()
    cq.close()
    return time.monotonic() - start


if not child:
    receive()
    # One that is read by nobody, and one, with callers, that no ibv_get_cq_event() has read: for
    # that the device alone waits for ever.
    for _ in range(2):
        cq.req_notify()
        tell()
        assert readable(channel.fd, 10)
        if _ == 0 and sys.argv[1] == 'on':
            assert len(os.read(channel.fd, 8)) == 8
        poll_ok(cq)
    hear()
    tell(seconds=destroyed())
    os._exit(0)

send()
for _ in range(2):
    hear()
    side.send(SEND, side.region.sge(0, 64))
    poll_ok(cq)
shown = json.loads(subprocess.run([SIMHCA, 'qp', '--json'], text=True, capture_output=True,
                                  check=True).stdout)
qp, = [qp for qp in shown if qp['lqpn'] == side.qp.qp_num]
tell()
print(json.dumps({'qp': qp, 'seconds': hear()['seconds']}))
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
destroyed()
channel.close()
