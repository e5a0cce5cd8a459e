# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
Extended reliable connections through libibverbs. What the device does is in tests/c/test_xrc.c;
pyverbs cannot open a QP of another process, so these are programs in C.
"""
import pytest

from harness import eventually
from programs import device_status, run_c

pytestmark = pytest.mark.addresses


@pytest.mark.parametrize('what', ['domains', 'objects', 'slots', 'events', 'processes'])
def test_xrc(c_program, what):
    run_c(c_program('xrc.c'), what)


def test_nothing_stays(c_program):
    """Domains, target QPs and XRC SRQs end with the processes that have them."""
    names = ('qps', 'srqs', 'xrcds')
    before = device_status('simhca0')['counts']  # of tests before, whose objects wait for Python
    run_c(c_program('xrc.c'), 'processes')

    def nothing_more():
        now = device_status('simhca0')['counts']
        return all(now[name] <= before[name] for name in names)

    eventually(nothing_more)
