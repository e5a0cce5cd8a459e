# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Programs that carry their messages by themselves (--fast-path)."""
import json
import os

import pytest

from programs import private_python


@pytest.mark.parametrize('options, by_fast_path', [
    ((), 22), (('--daemon-option', 'fast-path=off'), 0),
    (('--daemon-option', 'fast-path=on'), 22),
    # The device itself cannot reach them by system calls, and does not let them do so either.
    (('--daemon-option', 'fast-path=on', '--memory', 'agent'), 0),
], ids=['default', 'off', 'on', 'agent'])
def test_two_programs(options, by_fast_path):
    """Sends, writes and reads between two programs: who carried them."""
    qp = json.loads(private_python('fastpath.py', options=options))
    carried = qp.get('fast_path', {})
    assert carried.get('messages', 0) == by_fast_path, json.dumps(qp)
    assert qp['by_device'] == 22 - by_fast_path, json.dumps(qp)
    assert qp['carried'] == bool(by_fast_path)


@pytest.mark.parametrize('fast_path', ['on', 'off'])
def test_atomics(fast_path):
    """The first one is the daemon's. Then the program does them, and writes as before."""
    qp = json.loads(private_python('fastpath_atomics.py', options=('--daemon-option', f'fast-path={fast_path}')))
    carried = qp.get('fast_path', {}).get('messages', 0)
    assert carried + qp['by_device'] == 403, json.dumps(qp)
    # The QP is attached anew at one of the next posts; the device is at work for it now and then.
    assert carried > 380 if fast_path == 'on' else not carried, json.dumps(qp)


@pytest.mark.parametrize('variable', ['SIMHCA_FAST_PATH', 'SIMHCA_CALLERS'])
def test_a_program_may_do_without(variable):
    """By its environment, also by the old name."""
    qp = json.loads(private_python('fastpath.py', env={variable: 'off'}))
    assert not qp['carried'] and qp['by_device'] == 22, json.dumps(qp)


@pytest.mark.parametrize('options, by_fast_path', [
    ((), 40), (('--daemon-option', 'fast-path=off'), 0),
    (('--daemon-option', 'fast-path=on', '--memory', 'agent'), 0),
], ids=['default', 'off', 'agent'])
def test_datagrams(options, by_fast_path):
    """Between two programs, to two QPs of the one: who carried them."""
    qp = json.loads(private_python('fastpath_datagrams.py', options=options))
    carried = qp.get('fast_path', {})
    held = carried.get('owner', 0) if by_fast_path else 0
    assert held <= 1, json.dumps(qp)
    assert carried.get('messages', 0) == by_fast_path - held, json.dumps(qp)
    assert qp['by_device'] == 40 - by_fast_path + held, json.dumps(qp)


@pytest.mark.parametrize('fast_path', ['on', 'off'])
def test_events(fast_path):
    """
    Who sleeps is woken once for each arm, by whom does not matter; and who destroys the CQ waits for
    an event that was read and not acknowledged, but not for ever.
    """
    done = json.loads(private_python(
        'fastpath_events.py', fast_path, options=('--daemon-option', f'fast-path={fast_path}')))
    told = done['qp'].get('fast_path', {}).get('events', 0)
    # 22 of the other's CQ, 20 of its own. The device has the owner word for a message now and then.
    assert (30 <= told <= 42) if fast_path == 'on' else not told, done
    assert fast_path == 'off' or done['seconds'] > 0.9, done


@pytest.mark.parametrize('kind, mapped', [('dm', True), ('sealed', True), pytest.param(
    'open', False, marks=pytest.mark.private_memory('test_shared_memory.py has what is mapped there'))])
@pytest.mark.parametrize('fast_path', ['on', 'off'])
def test_regions_that_are_mapped(kind, mapped, fast_path):
    """On-chip memory, and files that cannot shrink, are the fast path's; and are given back with the region."""
    done = json.loads(private_python('fastpath_mapped.py', kind,
                                     options=('--daemon-option', f'fast-path={fast_path}')))
    mapped = mapped and fast_path == 'on'
    carried = done['qp'].get('fast_path', {}).get('messages', 0)
    assert carried + done['qp']['by_device'] == 900, done
    # Before the region is mapped a message is the device's; and now and then it looks at the QP just then.
    assert carried > 880 if mapped else not carried, done
    assert (done['before'], done['after']) == (1 if mapped else 0, 0), done
    assert done['shown'] == [mapped], done


def test_more_regions_than_are_mapped():
    """There are 16 at a time for a QP; and what is gone does not stay while it goes on with others."""
    done = json.loads(private_python('fastpath_many_mapped.py'))
    own = 'SIMHCA_TEST_SHARED_MEMORY' in os.environ  # its own region lies in a file as well
    assert done['before'] == 16 - own and done['after'] <= 2, done
    # Some of the messages to 24 regions in turn, and nearly all to the two that are left.
    assert done['qp']['fast_path']['messages'] > 600, done
