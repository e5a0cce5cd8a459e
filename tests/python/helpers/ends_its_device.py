# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Two tests: the first ends the daemon of its device and fails, the second would pass."""
import os
import signal

from programs import daemon_status


def test_ends_it():
    os.kill(daemon_status()['pid'], signal.SIGKILL)
    assert False, 'as the device would see to'


def test_is_not_run():
    pass
