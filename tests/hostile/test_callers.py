# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Programs that carry their messages themselves, and so have some of their peers' memory."""
import os

import pytest

KILLS = os.environ.get("SIMHCA_KILLS", "60")


@pytest.mark.parametrize("daemon", [["--engines-in-callers", "on"]], indirect=True, ids=["on"])
@pytest.mark.parametrize("how", ["scribble", "stop", "die"])
def test_a_peer_that_is_attached(daemon, neighbour, program, how):
    """It breaks its own connection, the neighbour does not notice, and the victim can destroy all."""
    attack = program("attached-peer", how)
    done, handed = attack.line().split()
    assert done == "done" and int(handed) > 0
    assert daemon.process.poll() is None
    daemon.settle(lambda: daemon.status()["devices"][0]["contexts"] <= 2)


@pytest.mark.parametrize("daemon", [["--engines-in-callers", "on"], ["--engines-in-callers", "off"]],
                         indirect=True, ids=["on", "off"])
def test_peers_that_are_killed(daemon, neighbour, program):
    """In the middle of their messages: the survivor has them whole, in order and once, or not at all."""
    survivor = program("killed-peers", KILLS)
    word, messages = survivor.line(int(KILLS)).split()
    assert word == "done" and int(messages) > int(KILLS)
    print(f"{KILLS} kills, {messages} messages")
