# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The daemon dies under its clients: every client is told, and nothing hangs."""
import signal
import sys

import pytest

from programs import helper, private


@pytest.mark.time_limit(150)
@pytest.mark.parametrize('how', [signal.SIGKILL, signal.SIGTERM], ids=['KILL', 'TERM'])
@pytest.mark.parametrize('case', ['idle', 'traffic', 'datagrams', 'waiting', 'srq', 'srq_with_cq',
                                  'extended', 'blocked', 'asleep', 'small', 'control'])
def test_daemon_death(how, case):
    """IBV_EVENT_DEVICE_FATAL, flushed work requests, calls that fail, objects that close."""
    done = private([sys.executable, helper('daemon_death.py'), case, str(int(how))])
    assert done.stdout.endswith('survived\n'), done.stdout + done.stderr
