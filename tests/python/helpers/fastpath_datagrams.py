# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
A program that sends datagrams to two QPs of another; prints what `simhca qp` says of its own QP.
"""
import json
import os

from pyverbs.addr import AH

from harness import GRH_BYTES, QKEY, SEND, UD, Side, pattern, poll_ok
from two_programs import Other, show

ROUNDS = 20
ROOM = GRH_BYTES + 64

other = Other(30)
sides = [Side(UD) for _ in range(1 if other.child else 2)]
for side in sides:
    side.start()
if not other.child:
    for side in sides:
        for n in range(ROUNDS):
            side.recv(side.region.sge(ROOM * n, ROOM))
    other.tell(qpns=[side.qp.qp_num for side in sides])
    other.hear()
    for number, side in enumerate(sides):
        for n in range(ROUNDS):
            assert poll_ok(side.rcq).byte_len == ROOM
            assert side.region.read(64, ROOM * n + GRH_BYTES) == pattern(64, 2 * n + number)
    other.tell()
    other.hear()
    os._exit(0)

side = sides[0]
ah = AH(side.pd, attr=side.device.address())
qpns = other.hear()['qpns']
for n in range(2 * ROUNDS):
    side.region.write(pattern(64, n))
    side.send(SEND, side.region.sge(0, 64), ud=(ah, qpns[n % 2], QKEY))
    poll_ok(side.scq)
other.tell()
other.hear()
print(json.dumps([qp for qp in show('qp') if qp['lqpn'] == side.qp.qp_num][0]))
other.tell()
assert os.waitstatus_to_exitcode(os.waitpid(other.child, 0)[1]) == 0
