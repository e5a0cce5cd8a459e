# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
The device reaches clients' memory in several ways. Whichever it is, what is said elsewhere about
data, rights and bad addresses holds: other files are run again on devices made for it.
"""
import json
import sys

import pytest

from programs import PROCESS_VM, SIMHCA, compiled, private, private_tests

FILES = ['test_operations.py', 'test_rights.py', 'test_srq.py', 'test_ud.py', 'test_mr.py',
         'test_fork.py', 'test_threads.py', 'test_fast_reg.py']
# These add nothing here: how it was posted, CQs, what never comes to a client's memory.
LESS = ' and '.join(f'not {name}' for name in (
    'small_mtu', 'ud_over', 'limits', 'wr-', 'cq_', 'longest', 'man_page', 'header_alone', 'symbols',
    'options', 'without_a_device', 'fork_handlers', 'poll_yields', 'qp_ex', 'refusals', 'descriptors',
    'destroy_qp', 'in_every_source', 'two_names', 'depth', 'test_objects', 'one_queue'))


def memory_of_a_client(*options, **keywords):
    """How the device reaches a client, as `simhca status` says."""
    code = ('import os, subprocess; from pyverbs.device import Context; '
            'context = Context(name="simhca0"); '
            f'subprocess.run([{SIMHCA!r}, "status", "--json"], check=True)')
    done = private([sys.executable, '-c', code], *options, **keywords)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)['devices'][0]['context'][0]['memory']


def test_modes():
    """By itself process_vm where the kernel allows it, the agent where it refuses, or as told."""
    assert memory_of_a_client() == 'process_vm'
    assert memory_of_a_client('--memory', 'agent') == 'agent'
    assert memory_of_a_client('--memory', 'process_vm') == 'process_vm'
    assert memory_of_a_client(forbidden=PROCESS_VM) == 'agent'


def test_refused_and_no_way_round():
    """With process_vm asked for, and refused by the kernel, a client hears of it in some way."""
    code = 'from pyverbs.device import Context; Context(name="simhca0")'
    done = private([sys.executable, '-c', code], '--memory', 'process_vm',
                   forbidden=PROCESS_VM)
    assert done.returncode != 0


@pytest.mark.once
@pytest.mark.private_memory('to reach what was moved into a file the daemon needs no agent')
def test_agent_of_a_stopped_process(tmp_path):
    """A program that a debugger stops for a while has its connections when it goes on."""
    done = private([compiled('stopped_peer.c', tmp_path)], '--memory', 'agent')
    assert done.returncode == 0, done.stderr


@pytest.mark.time_limit(400)
@pytest.mark.parametrize('file', FILES)
def test_agent(file):
    """--memory agent."""
    private_tests(file, '-k', LESS, options=('--memory', 'agent'))


@pytest.mark.time_limit(400)
def test_kernel_refuses():
    """
    The kernel refuses process_vm_readv and process_vm_writev, as it does in many containers. What
    comes of that is the agent (test_modes), as above: in children too.
    """
    private_tests('test_fork.py', '-k', LESS, forbidden=PROCESS_VM)
