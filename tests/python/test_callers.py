# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Programs that carry their messages by themselves (--engines-in-callers)."""
import json

import pytest

from programs import private_python


@pytest.mark.parametrize('options, by_caller', [
    ((), 22), (('--daemon-option', 'engines-in-callers=off'), 0),
    (('--daemon-option', 'engines-in-callers=on'), 22),
    # The device itself cannot reach them by system calls, and does not let them do so either.
    (('--daemon-option', 'engines-in-callers=on', '--memory', 'agent'), 0),
], ids=['default', 'off', 'on', 'agent'])
def test_two_programs(options, by_caller):
    """Sends, writes and reads between two programs: who carried them."""
    qp = json.loads(private_python('callers.py', options=options))
    callers = qp.get('callers', {})
    # The device can be looking at the QP at that moment: it has its turn then, for one message.
    turns = callers.get('turn', 0) if by_caller else 0
    assert turns <= 1, json.dumps(qp)
    assert callers.get('by_caller', 0) == by_caller - turns, json.dumps(qp)
    assert qp['by_device'] == 22 - by_caller + turns, json.dumps(qp)
