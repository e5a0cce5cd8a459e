# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Many threads at once on one context: making and destroying objects, moving data."""
import pytest

from programs import run_c


@pytest.mark.time_limit(120)
def test_objects(c_program):
    """Threads that make and destroy all kinds of objects beside each other."""
    run_c(c_program('threads.c'), 'objects', timeout=100)


@pytest.mark.time_limit(120)
def test_traffic(c_program):
    """Threads with a pair of QPs each, that start over again and again."""
    run_c(c_program('threads.c'), 'traffic', timeout=100)


@pytest.mark.time_limit(120)
def test_one_queue(c_program):
    """Several threads post to one send queue, others poll its CQ: nothing lost or twice."""
    run_c(c_program('threads.c'), 'queue', timeout=100)


@pytest.mark.time_limit(120)
def test_dereg_races_access(c_program):
    """Once ibv_dereg_mr has returned, no byte of the region changes any more."""
    run_c(c_program('threads.c'), 'dereg', timeout=100)
