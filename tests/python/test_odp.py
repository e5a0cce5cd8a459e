# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
On-demand regions by libibverbs: what a program does with its memory while the device uses it, and
what the device then finds. The file runs on three kinds of device: where userfaultfd events tell
what the program drops, where the device looks at each access (by option, or because the kernel
forbids userfaultfd), and with an agent.
"""
import ctypes
import os
import random
import signal
import tempfile

import pytest
import verbs_enums as e
from pyverbs.mr import MR
from pyverbs.wr import SGE

from harness import (CMP_SWP, FETCH_ADD, FULL, HUGE_PAGE, PAGE, READ, SEND, SEND_IMM, SUCCESS, WRITE,
                     WRITE_IMM, Side, a_place, connect, eventually, poll, poll_error, poll_ok)
from programs import free_huge_pages, listed, private_tests

ON_DEMAND = e.IBV_ACCESS_ON_DEMAND
PAGES = 64
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int,
                      ctypes.c_long]
for _name in ('munmap', 'madvise', 'mprotect'):
    getattr(libc, _name).argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int][
        :2 if _name == 'munmap' else 3]
libc.mremap.restype = ctypes.c_void_p
libc.mremap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int,
                        ctypes.c_void_p]
READABLE, WRITABLE = 1, 2
SHARED, PRIVATE, FIXED, ANONYMOUS, HUGE = 1, 2, 0x10, 0x20, 0x40000
DONTNEED, FREE, REMOVE = 4, 8, 9
MAYMOVE, TO_FIXED = 1, 2
FAILED = ctypes.c_void_p(-1).value


def mmap(length, flags=PRIVATE | ANONYMOUS, fd=-1, at=None, prot=READABLE | WRITABLE, offset=0):
    addr = libc.mmap(at, length, prot, flags, fd, offset)
    assert addr != FAILED, os.strerror(ctypes.get_errno())
    return addr


def check(result):
    assert result == 0, os.strerror(ctypes.get_errno())


class Area:
    """Memory of one kind under an on-demand region, and what its bytes should be."""

    def __init__(self, kind, pages=PAGES):
        self.kind, self.file = kind, None
        self.length = HUGE_PAGE if kind == 'huge' else pages * PAGE
        place = a_place(self.length)
        if kind == 'huge':
            self.addr = mmap(self.length, PRIVATE | ANONYMOUS | HUGE, at=place)
        elif kind == 'anonymous':
            self.addr = mmap(self.length, at=place)
        elif kind == 'shared':
            self.addr = mmap(self.length, SHARED | ANONYMOUS, at=place)
        else:
            self.file = (os.memfd_create('odp') if kind == 'memfd' else
                         os.open(tempfile.gettempdir(), os.O_TMPFILE | os.O_RDWR))
            os.ftruncate(self.file, self.length)
            self.addr = mmap(self.length, SHARED, self.file, place)
        self.model = bytearray(self.length)

    def store(self, offset, data):
        """As the program does it."""
        ctypes.memmove(self.addr + offset, bytes(data), len(data))
        self.model[offset:offset + len(data)] = data

    def load(self, offset, length):
        return ctypes.string_at(self.addr + offset, length)

    def agrees(self):
        assert self.load(0, self.length) == bytes(self.model)

    def drop(self, first, count, how):
        """Pages [first, first + count) go, and read as zero (or as their file) afterwards."""
        start, length = self.addr + first * PAGE, count * PAGE
        zero = self.kind == 'anonymous'
        if how == 'dontneed':
            check(libc.madvise(start, length, DONTNEED))
        elif how == 'map over':
            flags = (PRIVATE | ANONYMOUS if self.kind == 'anonymous' else
                     SHARED | ANONYMOUS if self.kind == 'shared' else SHARED)
            fd = -1 if self.file is None else self.file
            mmap(length, flags | FIXED, fd, start, offset=first * PAGE if self.file else 0)
            zero = self.file is None
        elif how == 'unmap, map':
            check(libc.munmap(start, length))
            self.drop(first, count, 'map over')
            return
        elif how == 'remap':
            away = mmap(PAGE)  # page by page, for a range may be of several mappings by now
            for page in range(first, min(first + count, first + 5)):
                here = self.addr + page * PAGE
                assert libc.mremap(here, PAGE, PAGE, MAYMOVE | TO_FIXED, away) == away
                assert libc.mremap(away, PAGE, PAGE, MAYMOVE | TO_FIXED, here) == here
            return
        elif how == 'remove':
            check(libc.madvise(start, length, REMOVE))
            zero = True
        elif how == 'truncate':
            os.ftruncate(self.file, first * PAGE)
            os.ftruncate(self.file, self.length)
            self.model[first * PAGE:] = bytes(self.length - first * PAGE)
            return
        elif how == 'protect':
            check(libc.mprotect(start, length, READABLE))
            check(libc.mprotect(start, length, READABLE | WRITABLE))
            return
        elif how == 'fork':
            child = os.fork()
            if not child:
                ctypes.memset(start, 0xee, length if self.kind == 'anonymous' else 0)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
            return
        if zero:
            self.model[first * PAGE:first * PAGE + length] = bytes(length)

    def ways(self):
        ways = ['dontneed', 'map over', 'unmap, map', 'remap', 'protect', 'fork']
        if self.kind in ('shared', 'memfd'):
            ways.append('remove')
        if self.file is not None:
            ways.append('truncate')
        return ways

    def close(self):
        libc.munmap(self.addr, self.length)
        if self.file is not None:
            os.close(self.file)


class Paging(Side):
    """A side whose region is an area, on demand."""

    def __init__(self, area, implicit=False, access=FULL):
        super().__init__(size=0)
        self.area = area
        if implicit:
            self.mr = MR(self.pd, 0, access | ON_DEMAND, implicit=True)
        else:
            self.mr = MR(self.pd, area.length, access | ON_DEMAND, address=area.addr)

    def at_offset(self, offset, length):
        return SGE(self.area.addr + offset, length, self.mr.lkey)

    def remote(self, offset):
        return self.area.addr + offset, self.mr.rkey


@pytest.fixture
def paging_pair(keep):
    def make(kind='anonymous', other=None, **keywords):
        sides = [keep(Paging(keep(Area(k)), **keywords)) for k in (kind, other or kind)]
        connect(*sides)
        return sides
    return make


def transfer(noise, one, two):
    """One operation of a random kind and place between two sides; both models follow."""
    opcode = noise.choice([SEND, SEND_IMM, WRITE, WRITE_IMM, READ, CMP_SWP, FETCH_ADD])
    atomic = opcode in (CMP_SWP, FETCH_ADD)
    most = min(one.area.length, two.area.length)
    length = 8 if atomic else noise.choice([1, 100, PAGE, 3 * PAGE + 17, 20 * PAGE])
    here, there = (noise.randrange(most - length) for _ in range(2))
    if atomic:
        there &= ~7
    local, target = one.at_offset(here, length), two.remote(there)
    if opcode in (SEND, SEND_IMM, WRITE_IMM):
        two.recv(*([two.at_offset(there, length)] if opcode != WRITE_IMM else
                   [two.at_offset(0, 1)]))
    value, add = noise.getrandbits(64), noise.getrandbits(64)
    one.send(opcode, local, to=None if opcode in (SEND, SEND_IMM) else target, compare_add=add,
             swap=value)
    poll_ok(one.scq)
    if opcode in (SEND, SEND_IMM, WRITE_IMM):
        poll_ok(two.rcq)
    mine, theirs = one.area.model, two.area.model
    if opcode == READ:
        mine[here:here + length] = theirs[there:there + length]
    elif atomic:
        old = bytes(theirs[there:there + 8])
        number = int.from_bytes(old, 'little')
        if opcode == FETCH_ADD:
            theirs[there:there + 8] = ((number + add) % 2 ** 64).to_bytes(8, 'little')
        elif number == add:
            theirs[there:there + 8] = value.to_bytes(8, 'little')
        mine[here:here + 8] = old
    else:
        theirs[there:there + length] = mine[here:here + length]


STEPS = int(os.environ.get('SIMHCA_ODP_STEPS', '150'))


@pytest.mark.time_limit(60 + STEPS // 20)
@pytest.mark.parametrize('kind', ['anonymous', 'shared', 'memfd', 'file'])
@pytest.mark.parametrize('implicit', [False, True])
def test_random(paging_pair, kind, implicit):
    """Whatever the program does with its memory, the device finds what the program would."""
    seed = random.randrange(1 << 32)
    print('seed', seed)
    noise = random.Random(seed)
    sides = paging_pair(kind, noise.choice(['anonymous', 'shared', 'memfd', 'file']),
                        implicit=implicit)
    for step in range(STEPS):
        one, two = noise.sample(sides, 2)
        action = noise.random()
        if action < 0.5:
            transfer(noise, one, two)
        elif action < 0.7:
            one.area.store(noise.randrange(one.area.length - 5000),
                           noise.randbytes(noise.choice([1, 100, 5000])))
        else:
            first = noise.randrange(PAGES)
            one.area.drop(first, noise.randint(1, PAGES - first), noise.choice(one.area.ways()))
        if step % 10 == 9:
            for side in sides:
                side.area.agrees()


def test_huge_pages(keep):
    """Pages of 2 MiB, dropped and found again."""
    free = free_huge_pages()
    if free < 2:
        pytest.skip(f'two huge pages are needed, and the kernel has {free} to give; scripts/test '
                    'reserves some where it may')
    areas = [keep(Area('huge')) for _ in range(2)]
    sides = [keep(Paging(area)) for area in areas]
    connect(*sides)
    noise = random.Random(5)
    for _ in range(20):
        transfer(noise, *noise.sample(sides, 2))
        areas[0].store(noise.randrange(1 << 20), noise.randbytes(1000))
        if noise.random() < 0.3:
            check(libc.madvise(areas[1].addr, areas[1].length, DONTNEED))
            areas[1].model[:] = bytes(areas[1].length)
    for area in areas:
        area.agrees()


def test_nothing_there(paging_pair):
    """What is unmapped after it was used is an error on the side whose memory it is."""
    one, two = paging_pair()
    transfer(random.Random(1), one, two)
    check(libc.munmap(two.area.addr + 4 * PAGE, PAGE))
    one.send(WRITE, one.at_offset(0, 3 * PAGE), to=two.remote(3 * PAGE))
    poll_error(one.scq, e.IBV_WC_REM_ACCESS_ERR, 'FAULT_NOT_MAPPED')
    one, two = paging_pair()
    check(libc.munmap(one.area.addr + 4 * PAGE, PAGE))
    one.send(WRITE, one.at_offset(3 * PAGE, 3 * PAGE), to=two.remote(0))
    poll_error(one.scq, e.IBV_WC_LOC_PROT_ERR, 'FAULT_NOT_MAPPED')


def test_read_only(paging_pair):
    """A page that was writable and is not any more."""
    one, two = paging_pair()
    one.send(WRITE, one.at_offset(0, 100), to=two.remote(0))
    poll_ok(one.scq)
    check(libc.mprotect(two.area.addr, PAGE, READABLE))
    one.send(READ, one.at_offset(0, 100), to=two.remote(0))
    poll_ok(one.scq)
    one.send(WRITE, one.at_offset(0, 100), to=two.remote(0))
    poll_error(one.scq, e.IBV_WC_REM_ACCESS_ERR, 'FAULT_NOT_WRITABLE')


def test_beyond_the_file(paging_pair):
    """A file that became shorter than its mapping."""
    one, two = paging_pair('anonymous', 'memfd')
    one.send(WRITE, one.at_offset(0, 100), to=two.remote(10 * PAGE))
    poll_ok(one.scq)
    os.ftruncate(two.area.file, PAGE)
    one.send(WRITE, one.at_offset(0, 100), to=two.remote(10 * PAGE))
    poll_error(one.scq, e.IBV_WC_REM_ACCESS_ERR, 'FAULT_NOT_MAPPED')


def test_stopped_program(keep):
    """The peer is stopped, and its pages come in all the same."""
    area, here = keep(Area('shared')), keep(Area('anonymous'))
    one, two = keep(Paging(here)), keep(Paging(area))
    connect(one, two)
    here.store(0, b'x' * PAGE)
    child = os.fork()
    if not child:  # shares the memory; the QP is the parent's, which goes on
        signal.pause()
        os._exit(0)
    os.kill(child, signal.SIGSTOP)
    one.send(WRITE, one.at_offset(0, PAGE), to=two.remote(5 * PAGE))
    poll_ok(one.scq)
    assert area.load(5 * PAGE, PAGE) == b'x' * PAGE
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def test_dereg_after_unmap(keep):
    """The region outlives its memory."""
    area = keep(Area('anonymous'))
    side = keep(Paging(area))
    check(libc.munmap(area.addr, area.length))
    side.mr.close()


def test_advice(paging_pair):
    """Prefetching through libibverbs, and what it refuses."""
    one, two = paging_pair()
    flush = e._IBV_ADVISE_MR_FLAG_FLUSH
    for advice in (e._IBV_ADVISE_MR_ADVICE_PREFETCH, e._IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
                   e._IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT):
        for flags in (0, flush):
            one.pd.advise_mr(advice, flags, [one.at_offset(i * PAGE, PAGE) for i in range(60)])
    one.send(WRITE, one.at_offset(0, PAGE), to=two.remote(0))
    assert poll(one.scq)[0].status == SUCCESS


def test_counters(paging_pair):
    """What `simhca mr` and `simhca qp` show of faults, invalidations and prefetches."""
    one, two = paging_pair()
    one.send(WRITE, one.at_offset(0, 3 * PAGE), to=two.remote(0))
    poll_ok(one.scq)
    one.send(READ, one.at_offset(10 * PAGE, 8), to=two.remote(0))
    poll_ok(one.scq)
    mine, theirs = (listed('mr', rkey=side.mr.rkey)[0]['odp'] for side in (one, two))
    assert (mine['faults'], mine['fault_pages'], mine['present_pages']) == (2, 4, 4)
    assert (theirs['faults'], theirs['fault_pages'], theirs['present_pages']) == (1, 3, 3)
    assert mine['watched_pages'] + mine['checked_pages'] == 4
    shown = [listed('qp', lqpn=side.qp.qp_num)[0] for side in (one, two)]
    assert shown[0]['faults'] == {'requester_read': 1, 'requester_write': 1, 'responder_read': 0,
                                  'responder_write': 0}
    assert shown[1]['faults'] == {'requester_read': 0, 'requester_write': 0, 'responder_read': 0,
                                  'responder_write': 1}
    assert not shown[0]['faults_pending'] and shown[0]['state'] == 'RTS'
    assert shown[0]['rqpn'] == two.qp.qp_num
    one.pd.advise_mr(e._IBV_ADVISE_MR_ADVICE_PREFETCH, e._IBV_ADVISE_MR_FLAG_FLUSH,
                     [one.at_offset(20 * PAGE, 5 * PAGE)])
    mine = listed('mr', rkey=one.mr.rkey)[0]['odp']
    assert (mine['prefetches'], mine['prefetched_pages']) == (1, 5)
    check(libc.madvise(one.area.addr, 2 * PAGE, DONTNEED))
    one.send(WRITE, one.at_offset(0, 3 * PAGE), to=two.remote(0))
    poll_ok(one.scq)
    eventually(lambda: listed('mr', rkey=one.mr.rkey)[0]['odp']['invalidated_pages'] == 2)
    check(libc.munmap(one.area.addr + PAGE, PAGE))
    one.send(WRITE, one.at_offset(0, 3 * PAGE), to=two.remote(0))
    poll_error(one.scq, e.IBV_WC_LOC_PROT_ERR, 'FAULT_NOT_MAPPED')
    assert listed('mr', rkey=one.mr.rkey)[0]['odp']['failures'] == 1


@pytest.mark.time_limit(200)
@pytest.mark.parametrize('options, forbidden', [
    (('--daemon-option', 'odp-invalidation=checks'), ()), ((), ('userfaultfd',)),
    (('--memory', 'agent'), ()), (('--daemon-option', 'fault-latency=300'), ())])
def test_other_devices(options, forbidden):
    """All of the above on other kinds of device."""
    private_tests('test_odp.py', '-k', 'not other_devices', options=options,
                  forbidden=forbidden)
