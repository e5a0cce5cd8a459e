# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
One program writes to regions of the other's that lie in files, reads from them, and counts there. Arguments: `dm`,
on-chip memory; `sealed`, a memfd that cannot shrink; `open`, one that can; `moved`, memory of its own, which is moved
into a file if the device says so; `shm`, `memfd`, `closed`, `huge`, `segment` and `nameless`, a shared mapping of a
file of /dev/shm, of a memfd with and without a descriptor, of huge pages, of a segment of System V, and of no file. Then
`write`, `read` or `add`: what meets the file without its pages at the end; without that its region is gone by then. And
`handler` or `blocked`: before that the program has done so with SIGBUS. Prints what `simhca qp` says of its QP, and how many mappings it had of the file before and after the region went.
"""
import ctypes
import fcntl
import json
import mmap
import os
import signal
import sys
import types

import verbs_enums as e
from pyverbs.device import DM, AllocDmAttr
from pyverbs.mr import DMMR, MR, DmaBufMR

from harness import FETCH_ADD, FULL, READ, WRITE, Side, pattern, poll_error, poll_ok
from two_programs import Other, show

KIND = sys.argv[1]
AT_THE_END = sys.argv[2:]
ROUNDS = 300
LENGTH = 3 * 4096
SHM = f'/dev/shm/test-region-{os.getpid()}'
OFFSET = 4096 + 40  # of the region in the file

other_program = Other(60)
child, tell, hear = other_program.child, other_program.tell, other_program.hear


class Memory:
    """A region in a file, and how its program sees that file."""

    def __init__(self, side):
        if KIND == 'dm':
            self.dm = DM(side.ctx, AllocDmAttr(length=OFFSET + LENGTH))
            self.start = 0  # pyverbs has the offset as the region's first address
            self.mr = DMMR(side.pd, LENGTH, FULL | e.IBV_ACCESS_ZERO_BASED, self.dm, OFFSET)
            return
        self.dm, self.start = None, OFFSET
        if KIND == 'moved':
            self.map = mmap.mmap(-1, LENGTH + 2 * 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            self.map.write(b'x' * 4096)
            address = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
            self.mr = MR(side.pd, len(self.map), FULL, address)
            self.start = address + OFFSET
            return
        if KIND in ('shm', 'memfd', 'closed', 'huge', 'segment', 'nameless'):
            self.map_shared()
            address = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
            # Not from the mapping's first page to its last: nothing of it moves.
            self.mr = MR(side.pd, LENGTH, FULL, address + OFFSET)
            self.start = address + OFFSET
            if KIND == 'shm':
                os.unlink(SHM)
            return
        file = os.memfd_create('test-region', os.MFD_ALLOW_SEALING)
        os.ftruncate(file, LENGTH + 2 * 4096)
        if KIND == 'sealed':
            fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        self.map = mmap.mmap(file, LENGTH + 2 * 4096)
        self.mr = DmaBufMR(side.pd, LENGTH, FULL, dmabuf=file, offset=OFFSET)
        os.close(file)

    def map_shared(self):
        size, self.file = 2 << 20 if KIND == 'huge' else LENGTH + 2 * 4096, None
        if KIND == 'nameless':
            self.map = mmap.mmap(-1, size)
        elif KIND == 'segment':
            libc = ctypes.CDLL(None, use_errno=True)
            libc.shmat.restype = ctypes.c_void_p
            number = libc.shmget(0, ctypes.c_size_t(size), 0o1600)  # IPC_PRIVATE, IPC_CREAT
            at = libc.shmat(number, None, 0)
            assert number >= 0 and at != ctypes.c_void_p(-1).value
            libc.shmctl(number, 0, None)  # IPC_RMID: when nobody has it any more
            self.map = (ctypes.c_char * size).from_address(at)
        else:
            self.file = os.open(SHM, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600) if KIND == 'shm' \
                else os.memfd_create('test-region', os.MFD_HUGETLB if KIND == 'huge' else 0)
            os.ftruncate(self.file, size)
            # Not by Python's, which keeps a descriptor of its own.
            libc = ctypes.CDLL(None, use_errno=True)
            libc.mmap.restype = ctypes.c_void_p
            at = libc.mmap(None, ctypes.c_size_t(size), 3, mmap.MAP_SHARED, self.file, ctypes.c_long(0))
            assert at != ctypes.c_void_p(-1).value
            self.map = (ctypes.c_char * size).from_address(at)
            if KIND == 'closed':
                os.close(self.file)

    def shrink(self):
        os.ftruncate(self.file, 0)

    def read(self, length, offset):
        if self.dm:
            return self.dm.copy_from_dm(OFFSET + offset, length)
        return bytes(self.map[OFFSET + offset:OFFSET + offset + length])


NAMES = ['test-region', 'simhca-dm', *(['simhca-registered'] if KIND == 'moved' else []),
         *(['SYSV'] if KIND == 'segment' else []), *(['/dev/zero'] if KIND == 'nameless' else [])]


def mappings():
    """Of such files."""
    with open('/proc/self/maps', encoding='ascii') as maps:
        return sum(any(name in line for name in NAMES) for line in maps)


side = Side(access=FULL, ex=True)
memory = None if child else Memory(side)
tell(qpn=side.qp.qp_num, rkey=memory.mr.rkey if memory else 0, start=memory.start if memory else 0, pid=os.getpid())
other = hear()
side.start(types.SimpleNamespace(device=side.device, qp=types.SimpleNamespace(qp_num=other['qpn'])))
tell()
hear()
if not child:
    while (what := hear()) != {'end': True}:
        if 'look' in what:
            offset, length, seed = what['look']
            assert memory.read(length, offset) == pattern(length, seed), what
        elif AT_THE_END:
            memory.shrink()
        else:
            memory.mr.close()
        tell()
    os._exit(0)

START = other['start']
for n in range(ROUNDS):
    length, at = 64 + 8 * (n % 500), n % 64 * 8
    side.region.write(pattern(length, n))
    side.send(WRITE, side.region.sge(0, length), to=(START + at, other['rkey']))
    poll_ok(side.scq)
    side.send(READ, side.region.sge(8192, length), to=(START + at, other['rkey']))
    poll_ok(side.scq)
    assert side.region.read(length, 8192) == pattern(length, n)
    side.send(FETCH_ADD, side.region.sge(8192, 8), to=(START + LENGTH - 8, other['rkey']), compare_add=1)
    poll_ok(side.scq)
    assert int.from_bytes(side.region.read(8, 8192), 'little') == n
    if n % 10 == 0:
        tell(look=[at, length, n])
        hear()
if 'handler' in AT_THE_END:
    signal.signal(signal.SIGBUS, lambda number, frame: os._exit(9))
if 'blocked' in AT_THE_END:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGBUS])
before = mappings()
for n in range(ROUNDS if AT_THE_END[1:] else 0):
    side.send(WRITE, side.region.sge(0, 64), to=(START, other['rkey']))
    poll_ok(side.scq)
assert not AT_THE_END[1:] or not mappings()
shown = [mr['mappable'] for mr in show('mr') if mr['rkey'] == other['rkey']]
assert KIND != 'moved' or [mr['pid'] for mr in show('mr') if mr['rkey'] == other['rkey']] == [other['pid']]
mine = [qp for qp in show('qp') if qp['lqpn'] == side.qp.qp_num][0]
tell(goes=True)
hear()
last = {'write': WRITE, 'read': READ, 'add': FETCH_ADD}[AT_THE_END[0] if AT_THE_END else 'write']
# More than a page, of which not all is copied before it is found.
side.send(last, side.region.sge(0, 8 if last == FETCH_ADD else 8192), to=(START if last != FETCH_ADD else START + LENGTH - 8, other['rkey']))
poll_error(side.scq, e.IBV_WC_REM_ACCESS_ERR, 'PAGE_NOT_MAPPED' if AT_THE_END else 'KEY_UNKNOWN')
side.qp.close()
print(json.dumps({'qp': mine, 'shown': shown, 'before': before, 'after': mappings()}))
tell(end=True)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
