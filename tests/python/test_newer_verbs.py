# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Verbs that came with rdma-core 45 and later, where the library has them."""
import os
import subprocess

import pytest

import programs

# What to look for in verbs.h, and the release that brought it.
FEATURES = {
    'FLUSH': ('ibv_wr_flush', 45),
    'DMAH': ('ibv_alloc_dmah', 59),
    'PORT_SPEED': ('ibv_query_port_speed', 62),
    'EXPORT_DM': ('ibv_dm_export_dmabuf_fd', 62),
    'COMP_CNTR': ('ibv_create_comp_cntr', 65),
}


@pytest.fixture(scope='module')
def header():
    """The installed infiniband/verbs.h."""
    compiler = os.environ.get('CC', 'cc')
    return subprocess.run([compiler, '-E', '-'], input='#include <infiniband/verbs.h>', text=True,
                          check=True, capture_output=True, timeout=60).stdout


def compiled(source, header, tmp_path_factory):
    have = [f'-DHAVE_{feature}' for feature, (name, _) in FEATURES.items() if name in header]
    return programs.compiled(source, tmp_path_factory.mktemp('c'), '-std=gnu11', *have)


@pytest.fixture(scope='module')
def program(header, tmp_path_factory):
    return compiled('newer_verbs.c', header, tmp_path_factory)


@pytest.fixture(scope='module')
def odp_caps(header, tmp_path_factory):
    return compiled('odp_caps.c', header, tmp_path_factory)


@pytest.mark.parametrize('what', ['rate_limit', 'confidential_domain'])
def test_always(program, what):
    """Which the library has long had, or passes on without looking."""
    programs.run_c(program, what)


@pytest.mark.parametrize('feature, what', [
    ('FLUSH', 'flushes'),
    ('DMAH', 'dma_handles'),
    ('DMAH', 'registration'),
    ('PORT_SPEED', 'port_speed'),
    ('EXPORT_DM', 'export_dm'),
    ('COMP_CNTR', 'comp_counters'),
])
def test_of_a_later_release(header, program, feature, what):
    name, release = FEATURES[feature]
    if name not in header:
        pytest.skip(f'{name} came with rdma-core {release}')
    programs.run_c(program, what)


@pytest.mark.parametrize('transport', ['RC', 'UC', 'UD', 'XRC'])
def test_on_demand_paging(odp_caps, transport):
    """Each capability, those of later releases (58: FLUSH, ATOMIC_WRITE) too, is what it can do."""
    programs.run_c(odp_caps, transport)
