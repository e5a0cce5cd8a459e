# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
On-demand regions whose owner is stopped, dies in the middle of a page fault, or keeps the device
waiting in its memory: the peer sees what it would see of hardware, and nobody else sees anything.
"""
import os
import signal
import struct
import subprocess

import pytest
import verbs_enums as e
from pyverbs.mr import MR
from pyverbs.wr import SGE

from harness import (FETCH_ADD, FULL, PAGE, READ, SUCCESS, WRITE, Memory, Side, connect, eventually,
                     poll, poll_nothing, poll_ok)
from programs import device_status, listed, private_tests

PAGES = 64
NO_USERFAULTFD = 77
COUNTS = ('pds', 'mrs', 'cqs', 'qps', 'srqs', 'ahs')


def counts():
    status = device_status('simhca0')
    return [*(status['counts'][name] for name in COUNTS), status['contexts']]


class Owner:
    """Another process, whose QP is connected to ours and whose region is on demand."""

    def __init__(self, side, program, mode):
        self.side = side
        self.process = subprocess.Popen([program, mode], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        told = self.process.stdout.read(16)
        if not told and self.process.wait() == NO_USERFAULTFD:
            self.close()
            pytest.skip('the kernel gives no userfaultfd that holds up its own accesses')
        self.qpn, self.rkey, self.addr = struct.unpack('=IIQ', told)
        side.attributes.update(rq_psn=0, sq_psn=0)
        side.to_init()
        side.to_rtr(side, dest_qp_num=self.qpn)
        side.to_rts()
        self.process.stdin.write(struct.pack('=IIQ', side.qp.qp_num, side.region.rkey,
                                             side.region.addr))
        self.process.stdin.flush()
        assert self.process.stdout.read(1) == b'r'

    def page(self, number, offset=0):
        return self.addr + number * PAGE + offset, self.rkey

    def shown(self):
        return listed('qp', lqpn=self.qpn)[0]

    def stuck(self, faults=1):
        """Waits until its QP is stopped by so many faults."""
        eventually(lambda: self.shown()['faults_pending'] == faults)

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)
        assert os.WIFSTOPPED(os.waitpid(self.process.pid, os.WUNTRACED)[1])

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def serve(self):
        """What nobody has served is there from now on."""
        self.process.stdin.write(b'a')
        self.process.stdin.flush()
        assert self.process.stdout.read(1) == b's'

    def kill(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        self.kill()
        self.process.stdin.close()
        self.process.stdout.close()


@pytest.fixture
def owner(c_program, side, keep):
    """owner(mode): one that is connected to a side of its own."""
    return lambda mode: keep(Owner(side(), c_program('odp_owner.c'), mode))


@pytest.fixture
def others(keep):
    """A connection between two on-demand regions of ours; others() moves data into fresh pages."""
    ends = [keep(Side(size=0)) for _ in range(2)]
    areas = [keep(Memory(PAGES * PAGE)) for _ in ends]
    regions = [keep(MR(end.pd, area.length, FULL | e.IBV_ACCESS_ON_DEMAND, address=area.addr))
               for end, area in zip(ends, areas)]
    connect(*ends)
    fresh = iter(range(PAGES))

    def work():
        at = next(fresh) * PAGE
        areas[0].write(b'others', at)
        sge = SGE(areas[0].addr + at, 6, regions[0].lkey)
        ends[0].send(WRITE, sge, to=(areas[1].addr + at, regions[1].rkey))
        poll_ok(ends[0].scq)
        assert areas[1].read(6, at) == b'others'

    return work


def write(one, place, data):
    one.region.write(data)
    one.send(WRITE, one.region.sge(0, len(data)), to=place)
    poll_ok(one.scq)


def read(one, place, length):
    one.send(READ, one.region.sge(100, length), to=place)
    poll_ok(one.scq)
    return one.region.read(length, 100)


# ------------------------------------------------------------------------------ stopped

def test_stopped_in_traffic(owner):
    """Its pages come in for its peer while it is stopped, and it goes on as if nothing were."""
    other = owner('passive')
    one = other.side
    for number in range(PAGES):
        if number in (10, 30):
            other.stop()
        if number in (20, 40):
            other.go_on()
        write(one, other.page(number), b'page %5d' % number)
    other.stop()
    for number in range(PAGES):
        assert read(one, other.page(number), 10) == b'page %5d' % number
    other.go_on()
    assert other.shown()['faults']['responder_write'] == PAGES


def test_stopped_while_it_sends(owner):
    """It is stopped anywhere between dropping a page and sending it, and goes on there."""
    other = owner('sends')
    one = other.side
    for _ in range(5):
        seen = one.region.read(8)
        eventually(lambda: one.region.read(8) != seen)
        other.stop()
        one.send(READ, one.region.sge(100, 8), to=other.page(3))
        poll_ok(one.scq)
        other.go_on()
    assert other.shown()['faults']['requester_read']


@pytest.mark.parametrize('stopped', [False, True])
def test_in_system_calls(owner, stopped):
    """Its own threads fault in system calls, drop, replace and fork, and all get on."""
    other = owner('drops')
    one = other.side
    for turn in range(400):
        if stopped and turn % 40 == 20:
            other.stop()
        opcode = (WRITE, READ, FETCH_ADD)[turn % 3]
        one.send(opcode, one.region.sge(0, 8), to=other.page(turn % PAGES), compare_add=1)
        poll_ok(one.scq)
        if stopped and turn % 40 == 30:
            other.go_on()
    assert other.process.poll() is None


# --------------------------------------------------------------------------------- dead

SLOW = 'SIMHCA_SLOW_FAULTS' in os.environ  # a fault waits longer than these tests take


def nothing_more_than(before):
    eventually(lambda: all(now <= then for now, then in zip(counts(), before)))


@pytest.mark.parametrize('mode', ['passive', 'unserved'])
@pytest.mark.parametrize('opcode', [WRITE, READ, FETCH_ADD])
def test_dies_in_a_fault(owner, others, mode, opcode):
    """
    Killed while a fault of its QP waits or is being resolved: the peer's retries are exceeded, and
    what it had goes. Where faults are not slow, that of the passive one may be over before.
    """
    if not SLOW:
        others()
    before = counts()
    other = owner(mode)
    one = other.side
    one.send(opcode, one.region.sge(0, 8), to=other.page(0), wr_id=1)
    one.send(WRITE, one.region.sge(0, 8), to=other.page(2), wr_id=2)
    certain = SLOW or mode == 'unserved'
    if certain:
        other.stuck()
        poll_nothing(one.scq)
    other.kill()
    found = poll(one.scq, 2)
    statuses = [wc.status for wc in found]
    assert [wc.wr_id for wc in found] == [1, 2]
    if certain:
        assert statuses == [e.IBV_WC_RETRY_EXC_ERR, e.IBV_WC_WR_FLUSH_ERR]
    else:
        assert set(statuses) <= {SUCCESS, e.IBV_WC_RETRY_EXC_ERR, e.IBV_WC_WR_FLUSH_ERR}
    one.close()
    nothing_more_than(before)
    if not SLOW:
        others()


def test_dies_while_it_sends(owner, others):
    """Its own requests fault, page after page, when it is killed."""
    for _ in range(3):
        before = counts()
        other = owner('sends')
        seen = other.side.region.read(8)
        eventually(lambda: other.side.region.read(8) != seen)
        other.kill()
        others()
        other.side.close()
        nothing_more_than(before)


@pytest.mark.time_limit(200)
def test_slow_faults():
    """Killed with a fault in the line that would have been resolved much later."""
    env = {'SIMHCA_SLOW_FAULTS': '1'}
    private_tests('test_odp_owner.py', '-k', 'dies_in_a_fault and passive', env=env,
                  options=('--daemon-option', 'fault-latency=5000000'))


# ------------------------------------------------------------------- memory that blocks

def test_unserved_memory(owner, others):
    """Workers are stuck in several programs' memory; others' faults are resolved all the same."""
    before = counts()
    stuck = [owner('unserved') for _ in range(4)]
    for other in stuck:
        other.side.send(WRITE, other.side.region.sge(0, 8), to=other.page(5))
        other.stuck()
    for _ in range(10):
        others()
    # One of them comes round, and gets what it was sent.
    stuck[0].serve()
    poll_ok(stuck[0].side.scq)
    assert read(stuck[0].side, stuck[0].page(5), 8) == stuck[0].side.region.read(8)
    for other in stuck[1:]:
        poll_nothing(other.side.scq, 0.01)
        other.kill()
        assert poll(other.side.scq)[0].status == e.IBV_WC_RETRY_EXC_ERR
    stuck[0].kill()
    for other in stuck:
        other.side.close()
    nothing_more_than(before)


@pytest.mark.time_limit(200)
def test_one_worker():
    """The same where a single worker was asked for."""
    private_tests('test_odp_owner.py', '-k', 'unserved_memory',
                  options=('--daemon-option', 'fault-workers=1'))


@pytest.mark.parametrize('ends', ['served', 'killed'])
def test_beside_its_own_thread(owner, others, ends):
    """A thread of the owner waits in read() for the page that the peer writes to."""
    other = owner('waits')
    one = other.side
    one.region.write(b'by peer\n')
    one.send(WRITE, one.region.sge(0, 8), to=other.page(0, 8))
    other.stuck()
    others()
    if ends == 'killed':
        other.kill()
        assert poll(one.scq)[0].status == e.IBV_WC_RETRY_EXC_ERR
    else:
        poll_nothing(one.scq, 0.01)
        other.serve()
        poll_ok(one.scq)
        assert read(one, other.page(0), 16) == b'by read\nby peer\n'
    others()
