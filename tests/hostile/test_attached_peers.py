# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Programs that carry their messages themselves, and so have some of their peers' memory."""
import json
import os
import subprocess

import pytest

from protocol import BUILD

KILLS = os.environ.get("SIMHCA_KILLS", "40")
REMAPS = os.environ.get("SIMHCA_REMAPS", "300")


@pytest.mark.parametrize("daemon", [["--fast-path", "on"]], indirect=True, ids=["on"])
@pytest.mark.parametrize("how", [["scribble"], ["stop"], ["die"], ["channel"], ["scribble", "srq"],
                                 ["stop", "srq"], ["scribble", "ud"], ["stop", "ud"], ["die", "ud"],
                                 ["scribble", "srq", "ud"], ["scribble", "atomics"], ["stop", "atomics"],
                                 ["die", "atomics"], ["writers", "atomics"]],
                         ids="-".join)
def test_a_peer_that_is_attached(daemon, neighbour, program, how):
    """It breaks its own connection, the neighbour does not notice, and the victim can destroy all."""
    attack = program("attached-peer", *how)
    done, handed = attack.line().split()
    assert done == "done" and int(handed) > 0
    assert daemon.process.poll() is None
    daemon.wait_until(lambda: daemon.status()["devices"][0]["contexts"] <= 2)


@pytest.mark.parametrize("daemon", [["--fast-path", "on"]], indirect=True, ids=["on"])
@pytest.mark.parametrize("how", ["receives", "sends", "slots", "again", "stale", "strangers", "srqs", "tags", "shared",
                                 "void", "kept", "kept-cq", "kept-srq", "held"])
def test_a_peer_that_forges_completions(daemon, neighbour, program, how):
    """In the CQ that it was handed, or where its QP was before it was reset. What is another's goes on."""
    assert program("forging-peer", how).line() == "done\n"
    assert daemon.process.poll() is None


@pytest.mark.parametrize("daemon", [["--fast-path", "on"]], indirect=True, ids=["on"])
@pytest.mark.parametrize("queue", ["own", "srq"])
def test_a_peer_that_lies_when_the_device_is_gone(daemon, program, queue):
    """What was posted is flushed once, whatever is said of the responder and of what was posted."""
    survivor = program("flushed-lies", queue)
    assert survivor.line() == "ready\n"
    assert daemon.stop() == 0
    assert survivor.line() == "done\n"


def expect_survival(program, options):
    survivor = program("killed-peers", KILLS, *options)
    word, messages = survivor.line(int(KILLS)).split()
    assert word == "done" and int(messages) > int(KILLS)
    print(f"{KILLS} kills, {messages} messages")


@pytest.mark.parametrize("daemon", [["--fast-path", "on"], ["--fast-path", "off"]],
                         indirect=True, ids=["on", "off"])
@pytest.mark.parametrize("options", [[], ["srq"], ["events"], ["srq", "events"], ["atomics"], ["srq", "atomics"],
                                     ["files"], ["srq", "files"], ["atomics", "files"]],
                         ids=["rq", "srq", "rq-sleeps", "srq-sleeps", "rq-atomics", "srq-atomics",
                              "rq-files", "srq-files", "rq-atomics-files"])
def test_peers_that_are_killed(daemon, neighbour, program, options):
    """In the middle of their messages: the survivor has them whole, in order and once, or not at all."""
    expect_survival(program, options)


@pytest.mark.parametrize("daemon", [["--fast-path", "on", "--shared-memory", "on"]], indirect=True, ids=["on"])
@pytest.mark.parametrize("options", [[], ["events"], ["srq"], ["atomics"], ["srq", "atomics"]],
                         ids=["rq", "rq-sleeps", "srq", "rq-atomics", "srq-atomics"])
def test_peers_that_are_killed_with_shared_memory(daemon, neighbour, program, options):
    """Likewise, as their memory was moved into files."""
    expect_survival(program, [*options, "moved"])


@pytest.mark.parametrize("daemon", [["--fast-path", "on"], ["--fast-path", "off"]],
                         indirect=True, ids=["on", "off"])
@pytest.mark.parametrize("options", [[], ["srq"], ["events"], ["srq", "events"]],
                         ids=["rq", "srq", "rq-sleeps", "srq-sleeps"])
def test_senders_that_are_killed(daemon, neighbour, program, options):
    """In the middle of their datagrams: their receiver hears the others, and has all its receives."""
    receiver = program("killed-senders", KILLS, *options)
    word, messages = receiver.line(int(KILLS)).split()
    assert word == "done" and int(messages) > int(KILLS)
    print(f"{KILLS} kills, {messages} datagrams")


def carried_on_uc(daemon):
    """Messages that the program of the UC QP has carried which has carried most."""
    qps = json.loads(subprocess.run([f"{BUILD}/bin/simhca", "qp", "--json", "--runtime-dir",
                                     daemon.directory], check=True, capture_output=True).stdout)
    return max(qp.get("fast_path", {}).get("messages", 0) for qp in qps if qp["type"] == "UC")


@pytest.mark.parametrize("daemon", [["--fast-path", "on"], ["--fast-path", "off"]],
                         indirect=True, ids=["on", "off"])
@pytest.mark.parametrize("name", ["remapped", "shifty-owner"])
def test_addresses_that_are_used_anew(daemon, neighbour, program, request, name):
    """
    After ibv_dereg_mr() nobody writes there any more, and each time there was a write under way. Files as regions are
    shrunk, sealed and mapped anew meanwhile, and the peer and the daemon get no signal.
    """
    owner = program(name, REMAPS)
    assert owner.line(int(REMAPS)) == "done\n"
    assert (carried_on_uc(daemon) > int(REMAPS)) == ("[on" in request.node.name or "-on]" in request.node.name)
    assert daemon.process.poll() is None
