# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The sockets on which the answers to commands come are kept by both sides."""
import array
import os
import socket
import struct
import threading

import pytest
from pyverbs.pd import PD

import protocol
from harness import Device
from rdma_cm import Channel

PLACES, KEPT = 8, 256  # of a process, and of a program in the daemon
COMES, KEEP = 0, 0xffffffff
IDENTIFY = 2

pytestmark = pytest.mark.addresses


def use(channel, times=1):
    """Each command gets its own answer."""
    for uid in range(times):
        number = channel.create(uid=uid + 1)
        assert channel.destroy(number) == 0


def sockets():
    """The kept ones: their numbers are high, as the low ones are for the program."""
    with os.scandir("/proc/self/fd") as entries:
        return {int(entry.name) for entry in entries
                if int(entry.name) >= 256 and os.readlink(entry.path).startswith("socket:")}


def test_one_is_enough(channel):
    before = sockets()
    use(channel)
    mine = sockets() - before
    use(channel, 100)
    assert sockets() - before == mine and len(sockets()) <= PLACES


def test_others_take_their_number(channel):
    """A program closes what it does not know: the answers come, and what it opens stays open."""
    use(channel)
    ours, theirs = socket.socketpair()
    taken = sockets()
    assert taken
    for number in taken:
        os.dup2(ours.fileno(), number)
    use(channel, 3)
    for number in taken:
        assert os.path.sameopenfile(number, ours.fileno())
        os.close(number)
    use(channel, 3)
    theirs.setblocking(False)
    with pytest.raises(BlockingIOError):
        theirs.recv(1)
    ours.close()
    theirs.close()


def test_of_a_device():
    """One is enough for its commands, which bring descriptors too, and goes with it."""
    before = sockets()
    device = Device()
    PD(device.ctx).close()
    mine = sockets() - before
    assert mine
    for _ in range(100):
        PD(device.ctx).close()
    assert sockets() - before == mine
    device.close()
    assert sockets() == before


def test_of_a_device_that_others_have_taken(keep):
    """As above: the number is another file's now."""
    device = keep(Device())
    PD(device.ctx).close()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        taken = sockets()
        for number in taken:
            os.dup2(ours.fileno(), number)
        PD(device.ctx).close()
        theirs.setblocking(False)
        with pytest.raises(BlockingIOError):
            theirs.recv(1)
        for number in taken:
            assert os.path.sameopenfile(number, ours.fileno())
            os.close(number)
        PD(device.ctx).close()


def test_threads_and_children(channel):
    """Many at once on one channel, in two processes."""
    use(channel)
    child = os.fork()
    wrong = []

    def work():
        try:
            use(channel, 200)
        except BaseException as error:
            wrong.append(error)
            raise

    threads = [threading.Thread(target=work) for _ in range(PLACES + 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if not child:
        os._exit(1 if wrong else 0)
    assert os.waitpid(child, 0)[1] == 0
    assert not wrong and len(sockets()) <= PLACES


def test_many_channels():
    channels = [Channel() for _ in range(3 * PLACES)]
    for _ in range(2):
        for one in channels:
            use(one)
        assert len(sockets()) <= PLACES
    for one in channels:
        one.close()


def ask(channel, answer=COMES):
    """What the preload library would say; the socket, and the number that it has from now on."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(10)
    request = bytes(16)
    hdr = struct.pack("=IHHII", protocol.MAGIC, protocol.VERSION, IDENTIFY, 16 + len(request), answer)
    with theirs, socket.socket(fileno=os.dup(channel.fd)) as sock:
        sock.sendmsg([hdr + request], [] if answer not in (COMES, KEEP) else [
            (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [theirs.fileno()]))])
    if answer not in (COMES, KEEP):
        return ours, 0
    return ours, struct.unpack_from("=4I", ours.recv(512))[3]


def test_the_daemon_keeps_a_share(channel, other):
    """A program that asks for more gets its answers all the same."""
    kept = [ask(channel, KEEP) for _ in range(KEPT + 50)]
    numbers = [number for _, number in kept if number]
    assert KEPT - 2 * PLACES <= len(numbers) == len(set(numbers)) <= KEPT
    assert [number for _, number in kept[-50:]] == [0] * 50
    use(other)
    # By its number, and on no other channel.
    ask(channel, answer=numbers[3])[0].close()
    assert len(kept[3][0].recv(512)) > 24
    ask(other, answer=numbers[4])[0].close()
    ask(channel, answer=KEEP - 1)[0].close()
    use(other)
    kept[4][0].setblocking(False)
    with pytest.raises(BlockingIOError):
        kept[4][0].recv(512)
    # One whose other end is closed makes room.
    for sock, _ in kept:
        sock.close()
    use(channel)
    sock, number = ask(channel, KEEP)
    assert number
    sock.close()
