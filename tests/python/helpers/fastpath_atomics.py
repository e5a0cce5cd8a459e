# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
A program that adds to a word of another one's, swaps it, and writes and reads beside it; prints what `simhca qp` says of
its QP.
"""
import json
import os
import types

from harness import CMP_SWP, FETCH_ADD, FULL, READ, WRITE, Side, pattern, poll_ok
from two_programs import Other, show

ROUNDS = 200

other_program = Other(30)
child, tell, hear = other_program.child, other_program.tell, other_program.hear

side = Side(access=FULL)
tell(qpn=side.qp.qp_num, at=side.region.at())
other = hear()
side.start(types.SimpleNamespace(device=side.device, qp=types.SimpleNamespace(qp_num=other['qpn'])))
tell()
hear()
word = other['at']


def value(offset):
    return int.from_bytes(side.region.read(8, offset), 'little')


def add(by):
    side.send(FETCH_ADD, side.region.sge(64, 8), to=word, compare_add=by)
    poll_ok(side.scq)
    return value(64)


if not child:
    tell()
    hear()
    assert value(0) == ROUNDS + 7
    assert side.region.read(64, 8192) == pattern(64, ROUNDS - 1)
    os._exit(0)

hear()
for n in range(ROUNDS):
    assert add(1) == n
    side.region.write(pattern(64, n), 4096)
    side.send(WRITE, side.region.sge(4096, 64), to=(word[0] + 8192, word[1]))
    poll_ok(side.scq)
side.send(CMP_SWP, side.region.sge(64, 8), to=word, compare_add=ROUNDS, swap=ROUNDS + 7)
poll_ok(side.scq)
side.send(CMP_SWP, side.region.sge(72, 8), to=word, compare_add=ROUNDS, swap=1)
poll_ok(side.scq)
assert (value(64), value(72)) == (ROUNDS, ROUNDS + 7)
side.send(READ, side.region.sge(128, 64), to=(word[0] + 8192, word[1]))
poll_ok(side.scq)
assert side.region.read(64, 128) == pattern(64, ROUNDS - 1)
print(json.dumps([qp for qp in show('qp') if qp['lqpn'] == side.qp.qp_num][0]))
tell()
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
