# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
One program writes to and reads from more regions of the other's, in files that cannot shrink, or with the argument
`moved` in its memory, which is moved into files, than it maps at a time; then most of them are deregistered, and it goes on with the others. Prints how many mappings it had before that and
in the end, and what `simhca qp` says of its QP.
"""
import ctypes
import fcntl
import json
import mmap
import os
import sys
import types

from pyverbs.mr import MR, DmaBufMR

from harness import FULL, READ, WRITE, Side, pattern, poll_ok
from two_programs import Other, show

MOVED = sys.argv[1:] == ['moved']
REGIONS = 24
KEPT = 2  # regions that are not deregistered
ROUNDS = 40
LENGTH = 4096

other_program = Other(60)
child, tell, hear = other_program.child, other_program.tell, other_program.hear
side = Side(access=FULL, ex=True)
maps, regions, addresses = [], [], [0] * REGIONS
for i in range(0 if child else REGIONS):
    if MOVED:
        maps.append(mmap.mmap(-1, LENGTH, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        addresses[i] = ctypes.addressof(ctypes.c_char.from_buffer(maps[i]))
        regions.append(MR(side.pd, LENGTH, FULL, addresses[i]))
        continue
    file = os.memfd_create('test-region', os.MFD_ALLOW_SEALING)
    os.ftruncate(file, LENGTH)
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    maps.append(mmap.mmap(file, LENGTH))
    regions.append(DmaBufMR(side.pd, LENGTH, FULL, dmabuf=file))
    os.close(file)


def mappings():
    with open('/proc/self/maps', encoding='ascii') as lines:
        return sum('test-region' in line or MOVED and 'simhca-registered' in line for line in lines)


tell(qpn=side.qp.qp_num, rkeys=[mr.rkey for mr in regions], addresses=addresses)
other = hear()
side.start(types.SimpleNamespace(device=side.device, qp=types.SimpleNamespace(qp_num=other['qpn'])))
tell()
hear()
if not child:
    hear()
    assert all(maps[i][:512] == pattern(512, ROUNDS * REGIONS + i) for i in range(REGIONS))
    for mr in regions[KEPT:]:
        mr.close()
    tell()
    hear()
    os._exit(0)


def write_and_read(region, seed):
    side.region.write(pattern(512, seed))
    side.send(WRITE, side.region.sge(0, 512), to=(other['addresses'][region], other['rkeys'][region]))
    poll_ok(side.scq)
    side.send(READ, side.region.sge(8192, 512), to=(other['addresses'][region], other['rkeys'][region]))
    poll_ok(side.scq)
    assert side.region.read(512, 8192) == pattern(512, seed)


for n in range(ROUNDS + 1):
    for i in range(REGIONS):
        write_and_read(i, n * REGIONS + i)
before = mappings()
tell()
hear()
for n in range(300):
    write_and_read(n % KEPT, n)
mine = [qp for qp in show('qp') if qp['lqpn'] == side.qp.qp_num][0]
print(json.dumps({'qp': mine, 'before': before, 'after': mappings()}))
tell()
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
