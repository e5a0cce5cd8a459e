# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""A client that is killed: its peers see what they would see of hardware, and nothing stays."""
import os
import signal
import struct
import subprocess
import sys
import time

import verbs_enums as e

from harness import READ, SEND, WRITE, eventually, poll, poll_nothing, poll_ok
from programs import device_status, helper

COUNTS = ('pds', 'mrs', 'cqs', 'qps', 'srqs', 'ahs')


def counts():
    status = device_status('simhca0')
    return {name: status['counts'][name] for name in COUNTS}, status['contexts']


class Victim:
    """Another process with a QP connected to ours."""

    def __init__(self, side, mode):
        self.process = subprocess.Popen([sys.executable, helper('victim.py'), mode],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        qpn, rkey, address = struct.unpack('=IIQ', self.process.stdout.read(16))
        self.place = address, rkey
        side.to_init()
        for _ in range(32):
            side.recv()
        side.to_rtr(side, dest_qp_num=qpn)
        side.to_rts()
        self.process.stdin.write(struct.pack('=IIQ', side.qp.qp_num, side.region.rkey,
                                             side.region.addr))
        self.process.stdin.flush()
        assert self.process.stdout.read(1) == b'r'

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        self.process.stdin.close()
        self.process.stdout.close()


def test_killed_while_it_is_used(side):
    """Our writes to a process that is killed: retries exceeded, the rest is flushed."""
    for turn in range(3):
        before = counts()
        one = side(send_wr=2000, cqe=4000)
        one.attributes.update(timeout=8, retry_cnt=3)
        with Victim(one, 'passive') as victim:
            for number in range(1000):
                one.send(WRITE, one.region.sge(0, 30000), to=victim.place, wr_id=number)
            time.sleep(0.001 * turn)
            victim.kill()
            for number in range(1000, 1010):
                one.send(READ, one.region.sge(0, 8), to=victim.place, wr_id=number)
            # What lies in a file that ours has mapped can be read until the device sees that the process is gone.
            eventually(lambda: counts()[1] == before[1] + 1)
            one.send(READ, one.region.sge(0, 8), to=victim.place, wr_id=1010)
            found = poll(one.scq, 1011)
        assert [wc.wr_id for wc in found] == list(range(1011))
        statuses = [wc.status for wc in found]
        failed = statuses.index(e.IBV_WC_RETRY_EXC_ERR)
        assert set(statuses[:failed]) <= {e.IBV_WC_SUCCESS}
        assert set(statuses[failed + 1:]) <= {e.IBV_WC_WR_FLUSH_ERR}
        assert one.state() == e.IBV_QPS_ERR
        one.close()


def test_killed_while_it_sends(side):
    """A process that is killed while it writes to us: our QP is unharmed, memory is ours again."""
    one = side()
    one.attributes.update(timeout=8, retry_cnt=3)
    with Victim(one, 'active') as victim:
        time.sleep(0.05)
        victim.kill()
        time.sleep(0.05)
        one.region.write(b'\x77' * 65536)
        time.sleep(0.05)
        assert one.region.read(65536) == b'\x77' * 65536
        assert one.state() == e.IBV_QPS_RTS
        one.device.no_event(0.01)
        one.send(SEND, one.region.sge(0, 8))
        assert poll(one.scq)[0].status == e.IBV_WC_RETRY_EXC_ERR


def test_nothing_stays(side):
    """What a killed process had is destroyed: the daemon's counts go back."""
    before = counts()
    ends = []
    for _ in range(3):
        one = side()
        ends.append(one)
        with Victim(one, 'hoard'):
            during = counts()
            assert during[1] == before[1] + 3  # ours, and two of the victim
            for name in COUNTS:
                assert during[0][name] > before[0][name], name
        one.close()
        eventually(lambda: counts() == before)


def test_killed_in_control_calls(side):
    """Killed at any moment of making and destroying objects: again nothing stays."""
    before = counts()
    for turn in range(10):
        process = subprocess.Popen([sys.executable, helper('victim.py'), 'churn'],
                                   stdout=subprocess.PIPE)
        assert process.stdout.read(1) == b'r'
        time.sleep(0.003 * turn)
        process.kill()
        process.wait()
        process.stdout.close()
    eventually(lambda: counts() == before)


def test_others_are_not_disturbed(side, pair):
    """While clients die, the traffic of others goes on."""
    client, server = pair()
    for _ in range(3):
        one = side()
        with Victim(one, 'active') as victim:
            for number in range(50):
                server.recv()
                client.send(SEND, client.region.sge(0, 1000))
                poll_ok(client.scq)
                poll_ok(server.rcq)
                if number == 25:
                    victim.kill()
    poll_nothing(client.scq, 0.01)


def test_exit_without_closing():
    """The ordinary end of a program that closes nothing."""
    before = counts()
    subprocess.run([sys.executable, helper('victim.py'), 'leave'], check=True)
    eventually(lambda: counts() == before)


def test_status_shows_the_process(side):
    """A process is listed with its pid and what it has."""
    one = side()
    status = device_status('simhca0')
    mine = [context for context in status['context'] if context['pid'] == os.getpid()]
    assert mine
    assert sum(context['counts']['qps'] for context in mine) >= 1
    assert one.qp.qp_num
