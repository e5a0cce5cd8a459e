# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""RAW_PACKET QPs, flows, counters, WQs and RSS through libibverbs, and who may use them."""
import os
import shutil
import subprocess

import pytest

from programs import PROCESS_VM, private, run_c

pytestmark = pytest.mark.addresses

CAP_NET_RAW = 13


def may():
    with open('/proc/self/status', encoding='ascii') as status:
        effective = next(line for line in status if line.startswith('CapEff:')).split()[1]
    return int(effective, 16) >> CAP_NET_RAW & 1


needs_net_raw = pytest.mark.skipif(not may(), reason='raw packets are for CAP_NET_RAW')


@pytest.fixture
def program(c_program):
    return c_program('raw_packet.c')


@pytest.fixture
def ethernet(open_device):
    if open_device.port.link_layer == 1:
        pytest.skip('of Ethernet ports')


def test_capabilities(program):
    """What query_device_ex says, which is nothing on InfiniBand."""
    run_c(program, 'capabilities')


@needs_net_raw
@pytest.mark.parametrize('what', ['flows', 'extended', 'rss', 'dropped'])
def test_on_ethernet(program, ethernet, what):
    """flows: errors, counters. extended: ibv_wr_*, tags. rss: WQs. dropped: the capability."""
    run_c(program, what)


@pytest.mark.once
@pytest.mark.skipif(os.geteuid() != 0, reason='for root alone')
@needs_net_raw
def test_root_for_another_user(program, ethernet):
    run_c(program, 'set_uid')


@needs_net_raw
def test_on_infiniband(program, open_device):
    if open_device.port.link_layer != 1:
        pytest.skip('of InfiniBand ports')
    run_c(program, 'no_ethernet')


@pytest.mark.once
@needs_net_raw
def test_memory_behind_an_agent(program):
    """Frames from and to processes whose memory the daemon cannot reach."""
    for what in ('extended', 'rss'):
        done = private([program, what], forbidden=PROCESS_VM)
        assert done.returncode == 0, done.stderr


def unprivileged(*command):
    """Without CAP_NET_RAW, but root for all else."""
    return ['setpriv', '--bounding-set', '-net_raw', '--inh-caps', '-net_raw', '--', *command]


@pytest.mark.once
def test_without_the_capability(program):
    done = private(unprivileged(program, 'denied') if may() else [program, 'denied'])
    assert done.returncode == 0, done.stderr


def user_namespaces():
    return shutil.which('unshare') and not subprocess.run(
        ['unshare', '--user', '--map-root-user', 'true'], check=False,
        capture_output=True).returncode


needs_namespaces = pytest.mark.skipif(not user_namespaces(),
                                      reason='no user namespaces in this sandbox')


@pytest.mark.once
@needs_namespaces
def test_root_of_another_namespace(program):
    """All capabilities of a user namespace are none outside of it."""
    done = private(['unshare', '--user', '--map-root-user', program, 'denied'])
    assert done.returncode == 0, done.stderr


@pytest.mark.once
@needs_namespaces
def test_root_of_the_daemons_namespace(program):
    """A user who makes a namespace of her own, and runs the device in there, may do what root may."""
    done = private([program, 'dropped'], run_in=['unshare', '--user', '--map-root-user'])
    assert done.returncode == 0, done.stderr
