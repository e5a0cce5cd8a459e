# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Programs that carry their messages themselves, and so have some of their peers' memory."""
import pytest


@pytest.mark.parametrize("daemon", [["--engines-in-callers", "on"]], indirect=True, ids=["on"])
@pytest.mark.parametrize("how", ["scribble", "stop", "die"])
def test_a_peer_that_is_attached(daemon, neighbour, program, how):
    """It breaks its own connection, the neighbour does not notice, and the victim can destroy all."""
    attack = program("attached-peer", how)
    done, handed = attack.line().split()
    assert done == "done" and int(handed) > 0
    assert daemon.process.poll() is None
    daemon.settle(lambda: daemon.status()["devices"][0]["contexts"] <= 2)
