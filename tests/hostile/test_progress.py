# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Programs that lie about how far their QPs are, in memory that they share with the device."""
import pytest


@pytest.mark.parametrize("daemon", [["--fast-path", "on"], ["--fast-path", "off"]],
                         indirect=True, ids=["on", "off"])
@pytest.mark.parametrize("lie", ["past", "no-queue"])
def test_lies(daemon, neighbour, program, lie):
    """The liar's QP fails, the daemon goes on, and the neighbour does not notice."""
    assert program("own-progress", lie).line() == "done\n"
    assert daemon.process.poll() is None
