# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
Completion callbacks where test_fast_reg.py is not enough: how the library is linked, what happens when
the daemon dies, what it costs at rest, and the example.
"""
import os
import re
import signal
import subprocess

import pytest

import programs
from harness import REPO

LIBRARY = os.path.join(programs.BUILD, 'lib', 'libsimhca-cq.so.1')
SOAK = bool(os.environ.get('SIMHCA_SOAK'))


# -------------------------------------------------------------------------- the library

def needed(binary):
    """The libraries that it names, without the C library's and sanitizers'."""
    said = subprocess.run(['readelf', '--dynamic', '--wide', binary], check=True, text=True, capture_output=True).stdout
    return [name for name in re.findall(r'\(NEEDED\).*\[(.*)\]', said)
            if not re.match(r'lib(c|pthread|asan|tsan|ubsan|m|gcc_s)\.so|ld-linux', name)]


def test_needs_libibverbs_alone():
    """So it works on any verbs device, and a device of simhca is one of them."""
    assert needed(LIBRARY) == ['libibverbs.so.1']


def test_linked_as_direct_verbs(tmp_path):
    """-lsimhca has callbacks, as before they had a library; who has none does not load that."""
    with_callbacks = programs.compiled('cq_callbacks_private.c', tmp_path, '-std=gnu11', dv=True)
    assert needed(with_callbacks) == ['libsimhca.so.1', 'libsimhca-cq.so.1', 'libibverbs.so.1']
    without = programs.compiled(os.path.join(REPO, 'examples', 'fast_reg.c'), tmp_path, '-std=gnu11', dv=True)
    assert needed(without) == ['libsimhca.so.1', 'libibverbs.so.1']


if SOAK:
    @pytest.mark.time_limit(600)
    @pytest.mark.parametrize('source, name', [
        ('cq_callbacks.c', 'no_lost_wakeup'), ('cq_callbacks_free.c', 'under_load'),
        ('cq_callbacks_free.c', 'forks_under_load')])
    def test_long_form(source, name, tmp_path):
        """What test_fast_reg.py runs in its short form, on a device of the library's."""
        program = programs.compiled(source, tmp_path, '-std=gnu11', '-Werror', dv=True)
        programs.run_c(program, name, timeout=600)


# --------------------------------------------------------------------- death, and at rest

@pytest.fixture(scope='module')
def helper(tmp_path_factory):
    """helper(case, variable=value): on a device of its own; what it said, with "done" at the end."""
    program = programs.compiled('cq_callbacks_private.c', tmp_path_factory.mktemp('callbacks'),
                                '-std=gnu11', '-Werror', dv=True)

    def run(case, **env):
        done = programs.private([program, case],
                                env={name: str(value) for name, value in env.items()})
        # The exit status is not its own if the daemon has died.
        assert done.stdout.endswith('done\n'), done.stdout + done.stderr
        return done.stdout

    return run


@pytest.mark.parametrize('how', [signal.SIGKILL, signal.SIGTERM], ids=['KILL', 'TERM'])
def test_daemon_death(helper, how):
    """Callbacks see what was outstanding as flushed, threads do not spin, and all can be freed."""
    helper('death', SIGNAL=int(how))


@pytest.mark.once
@pytest.mark.time_limit(120)
def test_idle(helper):
    """Armed CQs of every kind, and no traffic: less than 1 % of a core for us and the daemon."""
    seconds = 60 if SOAK else 3
    ours, daemons = map(float, helper('idle', SECONDS=seconds).split()[:2])
    print(f'in {seconds} s: {ours * 1000:.2f} ms, the daemon {daemons * 1000:.2f} ms')
    assert ours + daemons < seconds / 100


# -------------------------------------------------------------------------- the example

@pytest.fixture(scope='module')
def example(tmp_path_factory):
    return programs.compiled(os.path.join(REPO, 'examples', 'cq_callbacks.c'),
                             tmp_path_factory.mktemp('example'), '-std=gnu11', '-Werror', dv='simhca-cq')


@pytest.mark.parametrize('context', ['direct', 'softirq', 'workqueue'])
def test_example(example, context):
    """Every echo is checked by the client, and the server has sent as many."""
    said = programs.run_c(example, '--context', context, '--qps', '100', '--messages', '20')
    assert said.startswith(f'100 QPs, 2000 echoes by {context}, checked')


@pytest.mark.parametrize('arguments', [['--qps', '0'], ['--qps', '10001'], ['--messages', 'x'],
                                       ['--context', 'hard'], ['--no-such'], ['word']], ids=' '.join)
def test_example_options(example, arguments):
    done = subprocess.run([example, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr


def test_example_without_a_device(example):
    """It says how to be started."""
    done = subprocess.run([example], env=programs.outside(), capture_output=True, text=True,
                          timeout=60, check=False)
    assert done.returncode == 1 and 'simhca run' in done.stderr
