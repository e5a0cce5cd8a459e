# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
Two programs that send, write and read; prints what `simhca qp` says of the first one's QP, and how
many of its context's `simhca status` says that it carries.
"""
import json
import os
import types

from harness import (FULL, READ, SEND, WRITE, Side, pattern, poll_ok)
from two_programs import Other, show

ROUNDS = 20

other_program = Other(30)
child, tell, hear = other_program.child, other_program.tell, other_program.hear

side = Side(access=FULL, ex=True)
tell(qpn=side.qp.qp_num, at=side.region.at())
other = hear()
# The one that posts is connected while its peer is not.
if not child:
    hear()
side.start(types.SimpleNamespace(device=side.device, qp=types.SimpleNamespace(qp_num=other['qpn'])))
if child:
    tell()
for n in range(ROUNDS):
    side.recv(side.region.sge(64 * n, 64))
tell()
hear()
if not child:
    for n in range(ROUNDS):
        assert poll_ok(side.rcq).byte_len == 64
        assert side.region.read(64, 64 * n) == pattern(64, n)
    tell()
    hear()
    assert side.region.read(64, 8192) == pattern(64, 100)
    os._exit(0)

for n in range(ROUNDS):
    side.region.write(pattern(64, n))
    side.send(SEND, side.region.sge(0, 64), api='wr' if n % 2 else 'post_send')
    poll_ok(side.scq)
hear()
side.region.write(pattern(64, 100))
address, rkey = other['at']
side.send(WRITE, side.region.sge(0, 64), to=(address + 8192, rkey))
side.send(READ, side.region.sge(4096, 64), to=(address + 8192, rkey))
poll_ok(side.scq, 2)
assert side.region.read(64, 4096) == pattern(64, 100)
mine = [qp for qp in show('qp') if qp['lqpn'] == side.qp.qp_num][0]
contexts = show('status')['devices'][0]['context']
mine['carried'] = [one['counts']['carried'] for one in contexts if one['id'] == mine['context']][0]
print(json.dumps(mine))
tell()
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
