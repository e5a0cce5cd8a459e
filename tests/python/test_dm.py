# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""On-chip memory and regions of files."""
import errno
import os
import signal

import pytest
import verbs_enums as e
from pyverbs.device import DM, AllocDmAttr
from pyverbs.mr import DMMR
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.wr import SGE

from harness import (CMP_SWP, FETCH_ADD, FULL, READ, SEND, WRITE, Device, eventually, pattern, poll_error,
                     poll_ok, refused)
from programs import device_status, private_python, run_c

ZERO_BASED = e.IBV_ACCESS_ZERO_BASED


@pytest.fixture
def dm(ctx, keep):
    """dm(length): a piece of on-chip memory."""
    return lambda length, **options: keep(DM(ctx, AllocDmAttr(length=length, **options)))


def used():
    counts = device_status('simhca0')['counts']
    return counts['dms'], counts['dm_bytes']


def test_what_is_reported(ctx):
    """1 MiB or more, in whole pages."""
    size = ctx.query_device_ex().max_dm_size
    assert size >= 1 << 20 and size % 4096 == 0


def test_lengths(ctx, dm):
    """From one byte to all there is, and nothing else."""
    most = ctx.query_device_ex().max_dm_size
    for length in (1, 4, 4095, 4097, most):
        dm(length).close()
    for length in (0, most + 1, 1 << 63):
        with refused(errno.EINVAL):
            dm(length)
    with refused(errno.EINVAL):
        dm(4096, log_align_req=13)


def test_words(dm):
    """The program reads and writes words of 4 bytes, inside of what it asked for."""
    memory = dm(100)
    memory.copy_to_dm(0, b'a' * 100, 100)
    memory.copy_to_dm(96, b'b' * 4, 4)
    assert memory.copy_from_dm(92, 8) == b'aaaabbbb'
    for offset, length in ((1, 4), (2, 4), (0, 3), (0, 5), (100, 4), (96, 8), (1 << 63, 4)):
        with pytest.raises(PyverbsRDMAError):
            memory.copy_to_dm(offset, b'c' * length, length)
        with pytest.raises(PyverbsRDMAError):
            memory.copy_from_dm(offset, length)
    assert memory.copy_from_dm(92, 8) == b'aaaabbbb'


def test_nobody_else_sees_it(ctx, dm):
    """It comes zeroed, whoever had it before."""
    most = ctx.query_device_ex().max_dm_size
    memory = dm(most)
    memory.copy_to_dm(0, b'\xff' * most, most)
    memory.close()
    assert dm(most).copy_from_dm(0, most) == bytes(most)


def test_regions(pd, dm, keep):
    """Zero-based, of any part, also of none; not beyond the end, and not by address."""
    memory = dm(100)
    for offset, length in ((0, 100), (100, 0), (0, 0), (99, 1), (1, 3)):
        DMMR(pd, length, FULL | ZERO_BASED, memory, offset).close()
    for offset, length in ((0, 101), (1, 100), (101, 0)):
        with refused(errno.EINVAL):
            DMMR(pd, length, FULL | ZERO_BASED, memory, offset)
    with refused(errno.EINVAL):
        DMMR(pd, 100, FULL, memory, 0)
    with refused(errno.EINVAL):
        DMMR(pd, 100, e.IBV_ACCESS_REMOTE_WRITE | ZERO_BASED, memory, 0)


@pytest.mark.parametrize('api', ['post_send', 'wr'])
def test_operations(pair, keep, api):
    """Every operation reads and writes it, at both ends, from address 0 on."""
    client, server = pair(ex=api == 'wr')
    length = 1 << 16
    ends = []
    for side in (client, server):
        memory = keep(DM(side.ctx, AllocDmAttr(length=length)))
        ends.append((memory, keep(DMMR(side.pd, length, FULL | ZERO_BASED, memory, 0))))
    (here, here_mr), (there, there_mr) = ends
    data = pattern(length)
    everything = SGE(0, length, here_mr.lkey)

    here.copy_to_dm(0, data, length)
    server.recv(SGE(0, length, there_mr.lkey))
    client.send(SEND, everything, api=api)
    poll_ok(client.scq)
    poll_ok(server.rcq)
    assert there.copy_from_dm(0, length) == data

    there.copy_to_dm(0, bytes(length), length)
    client.send(WRITE, everything, to=(0, there_mr.rkey), api=api)
    poll_ok(client.scq)
    assert there.copy_from_dm(0, length) == data

    there.copy_to_dm(0, data[::-1], length)
    client.send(READ, everything, to=(0, there_mr.rkey), api=api)
    poll_ok(client.scq)
    assert here.copy_from_dm(0, length) == data[::-1]

    there.copy_to_dm(8, (41).to_bytes(8, 'little'), 8)
    client.send(FETCH_ADD, SGE(0, 8, here_mr.lkey), to=(8, there_mr.rkey), compare_add=1, api=api)
    poll_ok(client.scq)
    assert here.copy_from_dm(0, 8) == (41).to_bytes(8, 'little')
    client.send(CMP_SWP, SGE(0, 8, here_mr.lkey), to=(8, there_mr.rkey), compare_add=42, swap=7,
                api=api)
    poll_ok(client.scq)
    assert there.copy_from_dm(8, 8) == (7).to_bytes(8, 'little')

    client.send(WRITE, everything, to=(1, there_mr.rkey), api=api)
    poll_error(client.scq, e.IBV_WC_REM_ACCESS_ERR, 'KEY_PAST_END')


def test_accounting(ctx, dm):
    """simhca status counts pieces, and the pages that they have."""
    pieces, size = used()
    one, two = dm(1), dm(5000)
    assert used() == (pieces + 2, size + 4096 + 8192)
    one.close()
    two.close()
    assert used() == (pieces, size)


def test_death(ctx):
    """What a process had is free again when it dies."""
    pieces, size = used()
    most = ctx.query_device_ex().max_dm_size
    read_end, write_end = os.pipe()
    child = os.fork()
    if not child:
        device = Device()
        kept = DM(device.ctx, AllocDmAttr(length=most - size - 4096))
        os.write(write_end, b'!' if kept else b'')
        signal.pause()
    assert os.read(read_end, 1) == b'!'
    assert used() == (pieces + 1, most - 4096)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    eventually(lambda: used() == (pieces, size))


def test_limit():
    """The device's limit is that of all its programs; what goes makes room."""
    private_python('dm_limit.py', options=('--daemon-option', 'max-dm-size=65536'))


def test_files(c_program):
    """Regions of files: data, refusals, huge pages, and a file that shrinks under them."""
    run_c(c_program('dmabuf.c'))
