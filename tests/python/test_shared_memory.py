# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Memory that is moved into a file that both ends map as it is registered: --shared-memory."""
import json

import pytest

from programs import free_huge_pages, private, private_python

ON = ('--daemon-option', 'shared-memory=on', '--daemon-option', 'fast-path=on')
SCENES = {
    'moved_memory.c': ('contents', 'large', 'stays', 'stack_of_a_thread', 'length_of_files', 'many', 'mappings', 'nested', 'unmapped',
                       'registered_anew', 'closed_files', 'protected', 'rereg'),
    'moved_memory_fork.c': ('forked', 'forked_without_memory', 'forked_meanwhile'),
    'files_of_regions.c': ('locks_of_files', 'many_descriptors', 'given_back', 'given_back_by_itself', 'given_back_by_an_idle_peer',
                           'locked_in_memory'),
}
SHARED = ('shm', 'memfd', 'huge', 'closed', 'segment', 'nameless')  # fastpath_mapped.py has what they are


def run(program, scene, *options, **keywords):
    done = private([program, scene], *options, **keywords)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize('program, scene', [(program, scene) for program, scenes in SCENES.items() for scene in scenes])
def test_moved_memory(c_program, program, scene):
    """These programs, of tests/programs, have what each looks at."""
    run(c_program(program), scene, *ON)


@pytest.mark.parametrize('scene', ('contents', 'protected', 'unmapped'))
def test_moved_memory_under_lint(c_program, scene):
    """Lint looks at each copy; what it looks at may be protected by then."""
    run(c_program('moved_memory.c'), scene, *ON, '--lint')


@pytest.mark.parametrize('options, env', [
    pytest.param((), None, marks=pytest.mark.private_memory('the default is another one')), (('--daemon-option', 'shared-memory=on', '--daemon-option', 'fast-path=off'), None),
    (ON, {'SIMHCA_FAST_PATH': 'off'})], ids=['default', 'daemon', 'program'])
def test_nothing_is_moved(c_program, options, env):
    """Unless it is asked for, and where the fast path is off."""
    run(c_program('moved_memory.c'), 'off', *options, env=env)


@pytest.mark.parametrize('fast_path', ['on', 'off'])
def test_messages_between_two_programs(fast_path):
    """Writes, reads and atomics, and a region that goes; to users it is the memory of its process."""
    done = json.loads(private_python('fastpath_mapped.py', 'moved', options=(
        '--daemon-option', f'fast-path={fast_path}', '--daemon-option', 'shared-memory=on')))
    carried = done['qp'].get('fast_path', {}).get('messages', 0)
    assert carried + done['qp']['by_device'] == 900, done
    assert carried > 880 if fast_path == 'on' else not carried, done
    assert done['shown'] == [fast_path == 'on'], done
    assert done['before'] > done['after'] if fast_path == 'on' else not done['before'], done


def test_more_regions_than_are_mapped():
    """Those that are not are reached as they would be where they were, by system calls; none is left to the device."""
    done = json.loads(private_python('fastpath_many_mapped.py', 'moved', options=ON))
    assert done['before'] >= 16 and done['after'] <= 4, done
    # 24 regions in turn, and two of them alone, are written to and read from.
    assert done['qp']['fast_path']['messages'] + done['qp']['by_device'] == 2 * (41 * 24 + 300), done
    assert done['qp']['by_device'] < 60, done


@pytest.mark.parametrize('kind, last', [
    *((kind, ()) for kind in (*SHARED, 'open')), *((kind, (last,)) for kind in SHARED[:3] for last in ('write', 'read', 'add')),
    ('shm', ('write', 'handler')), ('shm', ('write', 'blocked'))], ids=lambda one: one if isinstance(one, str) else '-'.join(one) or 'goes')
def test_memory_that_is_shared_already(kind, last):
    """Regions of shared mappings are mapped as well; what has lost its pages is an error completion, and no signal."""
    if kind == 'huge' and free_huge_pages() < 2:
        pytest.skip('no huge pages: /proc/sys/vm/nr_hugepages')
    done = json.loads(private_python('fastpath_mapped.py', kind, *last, options=('--memory', 'shared')))
    messages = done['qp']['fast_path']['messages']
    assert messages + done['qp']['by_device'] == (1200 if last[1:] else 900), done
    assert messages > 880 and done['shown'] == [True] and done['before'] == 1, done
