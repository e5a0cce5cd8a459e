# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Memory regions: what may be registered, with which rights, and for how long a key is good."""
import errno
import itertools

import pytest
import verbs_enums as e
from pyverbs import mem_alloc
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.wr import SGE

from harness import (FULL, LOCAL_WRITE, PAGE, READ, REASON_NAME, REMOTE_ATOMIC, REMOTE_READ,
                     REMOTE_WRITE, SEND, WRITE, Memory, Region, connect, pattern, poll, poll_error, poll_ok,
                     refused)
from programs import run_c

PROT_READ = mem_alloc.PROT_READ_
RIGHTS = (LOCAL_WRITE, REMOTE_WRITE, REMOTE_READ, REMOTE_ATOMIC)
COMBINATIONS = [sum(chosen) for count in range(5)
                for chosen in itertools.combinations(RIGHTS, count)]
REREG = (e.IBV_REREG_MR_CHANGE_TRANSLATION, e.IBV_REREG_MR_CHANGE_PD, e.IBV_REREG_MR_CHANGE_ACCESS)
TRANSLATION, CHANGE_PD, CHANGE_ACCESS = REREG


@pytest.fixture
def memory(keep):
    """memory(length, prot): pages of our own."""
    return lambda *arguments, **options: keep(Memory(*arguments, **options))


@pytest.fixture
def region(pd, keep):
    """region(length, access, memory): a region of the test's PD."""
    return lambda length, access=FULL, memory=None: keep(Region(pd, length, access, memory))


# ------------------------------------------------------------------------- registration

@pytest.mark.parametrize('access', COMBINATIONS)
def test_access_combinations(pd, memory, access):
    """REMOTE_WRITE and REMOTE_ATOMIC need LOCAL_WRITE as well; all else goes together."""
    pages = memory(PAGE)
    if access & (REMOTE_WRITE | REMOTE_ATOMIC) and not access & LOCAL_WRITE:
        with refused(errno.EINVAL):
            MR(pd, PAGE, access, address=pages.addr)
    else:
        MR(pd, PAGE, access, address=pages.addr).close()


@pytest.mark.parametrize('access', [e.IBV_ACCESS_MW_BIND, e.IBV_ACCESS_RELAXED_ORDERING,
                                    e.IBV_ACCESS_ZERO_BASED, 1 << 29])
def test_optional_access(region, access):
    """Bits that ask for no right are accepted, those of the optional range always."""
    region(PAGE, FULL | access)


def test_unknown_access(region):
    """A bit that has no meaning is refused."""
    with refused(errno.EINVAL):
        region(PAGE, FULL | 1 << 15)


def test_unmapped(pd, memory):
    """Memory that is not there cannot be registered: at no place of the range."""
    pages = memory(3 * PAGE)
    for hole in range(3):
        pages = memory(3 * PAGE)
        mem_alloc.munmap(pages.addr + hole * PAGE, PAGE)
        with refused(errno.EFAULT):
            MR(pd, 3 * PAGE, 0, address=pages.addr)
        # Up to the hole, to the byte, and from behind it on.
        if hole:
            MR(pd, hole * PAGE, FULL, address=pages.addr).close()
            with refused(errno.EFAULT):
                MR(pd, hole * PAGE + 1, FULL, address=pages.addr)
        if hole < 2:
            MR(pd, (2 - hole) * PAGE, FULL, address=pages.addr + (hole + 1) * PAGE).close()


def test_read_only_memory(pd, memory):
    """Memory that the process may only read: not with LOCAL_WRITE, but without."""
    pages = memory(2 * PAGE, PROT_READ)
    for access in (LOCAL_WRITE, FULL):
        with refused(errno.EFAULT):
            MR(pd, 2 * PAGE, access, address=pages.addr)
    MR(pd, 2 * PAGE, REMOTE_READ, address=pages.addr).close()
    MR(pd, 2 * PAGE, 0, address=pages.addr).close()


def test_read_only_memory_and_windows(pd, memory):
    """A window can grant what its region does not use: the kernel wants writable memory for MW_BIND, too."""
    pages = memory(PAGE, PROT_READ)
    with refused(errno.EFAULT):
        MR(pd, PAGE, e.IBV_ACCESS_MW_BIND, address=pages.addr)
    region = MR(pd, PAGE, REMOTE_READ, address=pages.addr)
    with refused(errno.EFAULT):
        region.rereg(CHANGE_ACCESS, access=REMOTE_READ | e.IBV_ACCESS_MW_BIND)
    region.close()


def test_memory_without_access(pd, memory):
    """Memory that the process itself may not touch cannot be registered."""
    pages = memory(PAGE, mem_alloc.PROT_NONE_)
    with refused(errno.EFAULT):
        MR(pd, PAGE, 0, address=pages.addr)


def test_wrap(pd):
    """A range that passes the end of the address space is refused, not taken modulo 2^64."""
    for length in (2 * PAGE, PAGE, PAGE - 1, 1):  # nothing ends in the last page, as in the kernel
        with refused(errno.EINVAL):
            MR(pd, length, FULL, address=(1 << 64) - PAGE)
    with refused(errno.EINVAL):
        MR(pd, (1 << 64) - 1, FULL, address=PAGE * 16)


def test_zero_length(pair, keep):
    """A region of no bytes is legal; no byte can be reached through it."""
    client, server = pair(server={'access': FULL})
    for address in (None, server.region.addr):
        empty = MR(server.pd, 0, FULL, address=address)
        assert empty.length == 0
        if address:
            client.send(WRITE, client.region.sge(0, 1), to=(address, empty.rkey))
            poll_error(client.scq, e.IBV_WC_REM_ACCESS_ERR, 'KEY_PAST_END')
        empty.close()


def test_unaligned(pair):
    """A region may begin and end at any byte, and its neighbours stay as they are."""
    client, server = pair()
    client.region.write(pattern(999))
    inner = MR(server.pd, 999, FULL, address=server.region.addr + 13)
    client.send(WRITE, client.region.sge(0, 999), to=(server.region.addr + 13, inner.rkey))
    poll_ok(client.scq)
    assert server.region.read(13 + 999 + 100) == bytes(13) + pattern(999) + bytes(100)
    inner.close()


def test_keys_differ(region):
    """Live regions have keys of their own, also over the same memory."""
    first = region(PAGE)
    others = [region(PAGE, FULL, first.memory) for _ in range(50)]
    keys = {(part.lkey >> 8) for part in [first] + others}
    assert len(keys) == 51
    assert 0 not in keys


def test_zero_based(pair):
    """With ZERO_BASED both sides address the region from 0 on."""
    client, server = pair()
    target = server.new_region(4096, FULL | e.IBV_ACCESS_ZERO_BASED)
    source = client.new_region(4096, FULL | e.IBV_ACCESS_ZERO_BASED)
    source.write(pattern(4096))
    client.send(WRITE, SGE(100, 500, source.lkey), to=(1000, target.rkey))
    poll_ok(client.scq)
    assert target.read(4096) == bytes(1000) + pattern(4096)[100:600] + bytes(4096 - 1500)
    client.send(WRITE, SGE(0, 1, source.lkey), to=(4096, target.rkey))
    poll_error(client.scq, e.IBV_WC_REM_ACCESS_ERR, 'KEY_PAST_END')


def test_iova(c_program):
    """ibv_reg_mr_iova: the region is addressed from iova on, and not by its address."""
    run_c(c_program('iova.c'))


# ------------------------------------------------------------------------ rereg_mr

class World:
    """Two servers in different PDs, so that one can see which PD a region belongs to."""

    def __init__(self, side, keep):
        self.client = [side(), side()]
        self.server = [side()]
        self.server.append(side(device=self.server[0].device, pd=keep(PD(self.server[0].ctx))))
        for client, server in zip(self.client, self.server):
            connect(client, server)
        self.region = self.server[0].new_region(2 * PAGE, FULL)
        self.region.write(pattern(2 * PAGE, 5))
        self.elsewhere = self.server[0].new_region(4 * PAGE, 0).memory
        self.elsewhere.write(pattern(4 * PAGE, 6))

    def try_read(self, number, address, length=64):
        """Through server number: the bytes that an RDMA READ gets, or the reason why not."""
        client, server = self.client[number], self.server[number]
        client.send(READ, client.region.sge(0, length), to=(address, self.region.rkey))
        return self._outcome(client, server, lambda: client.region.read(length))

    def try_write(self, number, address):
        client, server = self.client[number], self.server[number]
        client.send(WRITE, client.region.sge(100, 1), to=(address, self.region.rkey))
        return self._outcome(client, server, lambda: 'OK')

    def _outcome(self, client, server, value):
        wc = poll(client.scq)[0]
        if wc.status == e.IBV_WC_SUCCESS:
            return value()
        for end in (client, server):
            end.to(e.IBV_QPS_RESET)
        connect(client, server)
        return REASON_NAME[wc.vendor_err]


@pytest.fixture
def world(side, keep):
    return World(side, keep)


@pytest.mark.parametrize('flags', range(1, 8))
def test_rereg(world, flags):
    """Each combination changes what it names and nothing else; both keys survive."""
    region, mr = world.region, world.region.mr
    keys = mr.lkey, mr.rkey
    mr.rereg(flags, pd=world.server[1].pd, addr=world.elsewhere.addr, length=4 * PAGE,
             access=REMOTE_READ if flags & CHANGE_ACCESS else 0)
    assert (mr.lkey, mr.rkey) == keys
    moved, other_pd, weaker = (bool(flags & flag) for flag in REREG)
    home = 1 if other_pd else 0
    address, old, content = region.addr, world.elsewhere.addr, pattern(2 * PAGE, 5)
    if moved:
        address, old, content = old, address, pattern(4 * PAGE, 6)
    length = len(content)
    assert mr.length == length
    assert world.try_read(home, address) == content[:64]
    assert world.try_read(home, address + length - 64) == content[-64:]
    assert world.try_read(home, address + length - 63) == 'KEY_PAST_END'
    assert world.try_read(1 - home, address) == 'KEY_WRONG_PD'
    assert world.try_read(home, old) in ('KEY_BELOW_START', 'KEY_PAST_END')
    assert world.try_write(home, address) == ('MR_NO_REMOTE_WRITE' if weaker else 'OK')


def test_rereg_local_key(world):
    """The lkey follows as well: to the new PD, and not to the old one."""
    client, server = world.client, world.server
    world.region.mr.rereg(CHANGE_PD, pd=server[1].pd)
    for number in (1, 0):
        client[number].recv()
        server[number].send(SEND, world.region.sge(0, 64))
        if number:
            poll_ok(server[number].scq)
            poll_ok(client[number].rcq)
            assert client[number].region.read(64) == pattern(64, 5)
        else:
            poll_error(server[number].scq, e.IBV_WC_LOC_PROT_ERR, 'KEY_WRONG_PD')


def _bad_reregs(memory):
    hole, read_only, good = memory(2 * PAGE), memory(PAGE, PROT_READ), memory(PAGE)
    mem_alloc.munmap(hole.addr + PAGE, PAGE)
    return {
        'no flags': (0, {}, errno.EINVAL),
        'unknown flag': (8, {}, errno.EINVAL),
        'unmapped': (TRANSLATION, {'addr': hole.addr, 'length': 2 * PAGE}, errno.EFAULT),
        'read only': (TRANSLATION, {'addr': read_only.addr, 'length': PAGE}, errno.EFAULT),
        'wrap': (TRANSLATION, {'addr': (1 << 64) - PAGE, 'length': 2 * PAGE}, errno.EINVAL),
        'rights': (CHANGE_ACCESS, {'access': REMOTE_WRITE}, errno.EINVAL),
        'unknown right': (CHANGE_ACCESS, {'access': FULL | 1 << 15}, errno.EINVAL),
        'good and bad': (TRANSLATION | CHANGE_ACCESS,
                         {'addr': good.addr, 'length': PAGE, 'access': REMOTE_ATOMIC},
                         errno.EINVAL),
    }


@pytest.mark.parametrize('case', ['no flags', 'unknown flag', 'unmapped', 'read only', 'wrap',
                                  'rights', 'unknown right', 'good and bad'])
def test_rereg_fails_without_damage(world, memory, case):
    """A change that is refused leaves the region as it was: place, length, PD and rights."""
    flags, arguments, error = _bad_reregs(memory)[case]
    region = world.region
    keys = region.mr.lkey, region.mr.rkey
    with refused(error):
        region.mr.rereg(flags, **arguments)
    assert (region.mr.lkey, region.mr.rkey, region.mr.length) == (*keys, 2 * PAGE)
    assert world.try_read(0, region.addr) == pattern(64, 5)
    assert world.try_read(0, region.addr + 2 * PAGE - 64) == pattern(2 * PAGE, 5)[-64:]
    assert world.try_write(0, region.addr) == 'OK'
    assert world.try_read(1, region.addr) == 'KEY_WRONG_PD'
    region.mr.close()


def test_rereg_stronger_rights_need_the_memory(pd, memory):
    """LOCAL_WRITE cannot be had later, either, for memory that the process may only read."""
    pages = memory(PAGE, PROT_READ)
    mr = MR(pd, PAGE, REMOTE_READ, address=pages.addr)
    with refused(errno.EFAULT):
        mr.rereg(CHANGE_ACCESS, access=FULL)
    mr.close()


# -------------------------------------------------------------------------- dereg_mr

def test_use_after_dereg(pair):
    """A key that was deregistered is unknown, at either end; memory is not touched any more."""
    client, server = pair()
    target = server.new_region(PAGE)
    place, pages = target.at(), target.memory
    target.mr.close()
    client.send(WRITE, client.region.sge(0, 64), to=place)
    poll_error(client.scq, e.IBV_WC_REM_ACCESS_ERR, 'KEY_UNKNOWN')
    assert pages.read(PAGE) == bytes(PAGE)

    client, server = pair()
    source = client.new_region(PAGE)
    sge = source.sge(0, 64)
    source.mr.close()
    server.recv()
    client.send(SEND, sge)
    poll_error(client.scq, e.IBV_WC_LOC_PROT_ERR, 'KEY_UNKNOWN')


def test_receive_into_deregistered(pair):
    """A receive buffer whose region went after it was posted: an error at both ends."""
    client, server = pair()
    target = server.new_region(PAGE)
    server.recv(target.sge())
    target.mr.close()
    client.send(SEND, client.region.sge(0, 64))
    poll_error(server.rcq, e.IBV_WC_LOC_PROT_ERR, 'KEY_UNKNOWN')
    poll_error(client.scq, e.IBV_WC_REM_OP_ERR, 'KEY_UNKNOWN')


def test_keys_are_not_used_again_at_once(pd, memory):
    """Registering again gives another key, so that an old one does not reach new memory."""
    pages = memory(PAGE)
    seen = set()
    for _ in range(500):
        mr = MR(pd, PAGE, FULL, address=pages.addr)
        assert mr.rkey not in seen
        seen.add(mr.rkey)
        mr.close()


def test_large_region(pair):
    """A region of many GiB, of which only two places are touched."""
    length = 64 << 30
    pages = Memory.__new__(Memory)
    pages.length = length
    pages.addr = mem_alloc.mmap(length=length, fd=-1, flags=mem_alloc.MAP_PRIVATE_
                                | mem_alloc.MAP_ANONYMOUS_ | mem_alloc.MAP_NORESERVE_)
    client, server = pair()
    target = server.new_region(length, FULL, memory=pages)
    client.region.write(pattern(5000))
    client.send(WRITE, client.region.sge(0, 5000), to=target.at(length - 5000))
    client.send(WRITE, client.region.sge(0, 5000), to=target.at(length // 2 + 1))
    poll_ok(client.scq, 2)
    assert mem_alloc.read(target.addr + length - 5000, 5000) == pattern(5000)
    assert mem_alloc.read(target.addr + length // 2 + 1, 5000) == pattern(5000)
