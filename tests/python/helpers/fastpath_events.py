# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Two programs of which one sleeps until the other sends; prints `simhca qp` of the sender's QP."""
import json
import os
import sys
import time
import types

from pyverbs.cq import CQ
from harness import SEND, Channel, Device, Side, poll_ok, readable
from two_programs import Other, show

ROUNDS = 20

other_program = Other(60)
child, tell, hear = other_program.child, other_program.tell, other_program.hear

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
qp, = [qp for qp in show('qp') if qp['lqpn'] == side.qp.qp_num]
tell()
print(json.dumps({'qp': qp, 'seconds': hear()['seconds']}))
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
destroyed()
channel.close()
