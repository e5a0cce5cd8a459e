# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Programs that carry their messages by themselves (--engines-in-callers)."""
import json

import pytest

from programs import private_python


@pytest.mark.parametrize('options, by_fast_path', [
    ((), 22), (('--daemon-option', 'engines-in-callers=off'), 0),
    (('--daemon-option', 'engines-in-callers=on'), 22),
    # The device itself cannot reach them by system calls, and does not let them do so either.
    (('--daemon-option', 'engines-in-callers=on', '--memory', 'agent'), 0),
], ids=['default', 'off', 'on', 'agent'])
def test_two_programs(options, by_fast_path):
    """Sends, writes and reads between two programs: who carried them."""
    qp = json.loads(private_python('callers.py', options=options))
    callers = qp.get('callers', {})
    # The device can be looking at the QP at that moment: it has its turn then, for one message.
    turns = callers.get('turn', 0) if by_fast_path else 0
    assert turns <= 1, json.dumps(qp)
    assert callers.get('by_fast_path', 0) == by_fast_path - turns, json.dumps(qp)
    assert qp['by_device'] == 22 - by_fast_path + turns, json.dumps(qp)
    assert qp['carried'] == bool(by_fast_path)


@pytest.mark.parametrize('options, by_fast_path', [
    ((), 40), (('--daemon-option', 'engines-in-callers=off'), 0),
    (('--daemon-option', 'engines-in-callers=on', '--memory', 'agent'), 0),
], ids=['default', 'off', 'agent'])
def test_datagrams(options, by_fast_path):
    """Between two programs, to two QPs of the one: who carried them."""
    qp = json.loads(private_python('caller_datagrams.py', options=options))
    callers = qp.get('callers', {})
    turns = callers.get('turn', 0) if by_fast_path else 0
    assert turns <= 1, json.dumps(qp)
    assert callers.get('by_fast_path', 0) == by_fast_path - turns, json.dumps(qp)
    assert qp['by_device'] == 40 - by_fast_path + turns, json.dumps(qp)


@pytest.mark.parametrize('callers', ['on', 'off'])
def test_events(callers):
    """
    Who sleeps is woken once for each arm, by whom does not matter; and who destroys the CQ waits for
    an event that was read and not acknowledged, but not for ever.
    """
    done = json.loads(private_python(
        'caller_events.py', callers, options=('--daemon-option', f'engines-in-callers={callers}')))
    told = done['qp'].get('callers', {}).get('told', 0)
    # 22 of the other's CQ, 20 of its own. The device has the turn for a message now and then.
    assert (30 <= told <= 42) if callers == 'on' else not told, done
    assert callers == 'off' or done['seconds'] > 0.9, done
