# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Memory of a client whose pages nobody brings: whoever touches it sleeps."""
import time

import pytest

ATTACK = 2.5  # seconds, longer than conftest.BOUND, in which the neighbour has its rounds


@pytest.mark.parametrize("then", ["raise", "destroy"])
def test_events_read_into_it(daemon, neighbour, slow_file, program, then):
    """Who reads its events into such a page holds the lock of what it reads them from."""
    reader = program("slow-reader", slow_file, then)
    assert reader.line() == "done\n"
    time.sleep(ATTACK)
