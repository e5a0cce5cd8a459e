# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Programs below `simhca run`: in one of them, or in several that meet in one daemon."""
import os
import pathlib
import signal
import tempfile

import pytest

from common import ENDING, TIME_LIMIT, SIMHCA, Launcher, alive, bandwidth_lines, expect_pingpong
from common import expect_success, gid, pair_script, start_server, wait_until

# Who says what a daemon is to be joins one that is just that, as --under shared_memory has made it.
SAME = ["--shared-memory=on"] if "SIMHCA_TEST_SHARED_MEMORY" in os.environ else []
PROGRAMS = ["ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong"]


class Runs(Launcher):
    """`simhca run`s that share a runtime directory."""

    def __init__(self, link_layer, directory):
        super().__init__([SIMHCA, "run", f"--link-layer={link_layer}", *SAME, "--"])
        self.env["SIMHCA_RUNTIME_DIR"] = directory
        self.pid_file = pathlib.Path(directory, "pid")

    def daemon(self):
        return int(self.pid_file.read_text())

    def daemon_is_gone(self):
        return not self.pid_file.exists() or not alive(self.daemon())


@pytest.fixture
def runs(link_layer):
    with tempfile.TemporaryDirectory(prefix="simhca-") as directory:
        runs = Runs(link_layer, directory)
        yield runs
        runs.kill_programs()
        wait_until(runs.daemon_is_gone, ENDING, "the daemon ends with its last program")


@pytest.mark.parametrize("program", PROGRAMS)
def test_one_run(launcher, link_layer, program):
    """Server and client in one shell, below one simhca run."""
    script = pair_script(program, *gid(link_layer), "-s", 2048, "-n", 1000, "-e", "-c")
    result = launcher.run(SIMHCA, "run", "--private", f"--link-layer={link_layer}", "--",
                          "sh", "-c", script)
    expect_success(result)
    assert bandwidth_lines(result.stdout) == [str(2 * 2048 * 1000)] * 2, result
    assert "invalid data" not in result.stdout and result.stderr == "", result


@pytest.mark.parametrize("program", PROGRAMS)
def test_two_runs(runs, link_layer, program):
    """The second run joins the daemon of the first, and the daemon ends with both."""
    flags = [program, *gid(link_layer), "-s", 2048, "-n", 1000, "-e", "-c"]
    server, port = start_server(runs, *flags)
    daemon = runs.daemon()
    client = runs.start(*flags, "-p", port, "localhost")
    expect_pingpong(client.finish(), 2048, 1000)
    expect_pingpong(server.finish(), 2048, 1000)
    wait_until(lambda: not alive(daemon), ENDING, "the daemon ends with its last program")
    assert runs.daemon_is_gone(), "there was another daemon"


def test_first_run_ends_first(runs, link_layer):
    """The daemon that the first run has started lives on for the others."""
    watching = runs.start("ibv_asyncwatch")
    wait_until(lambda: "async event FD" in watching.stdout, TIME_LIMIT, "ibv_asyncwatch starts")
    server, port = start_server(runs, "ibv_rc_pingpong", *gid(link_layer), "-c")
    watching.send(signal.SIGTERM)
    assert watching.finish(ENDING).status == 128 + signal.SIGTERM
    client = runs.start("ibv_rc_pingpong", *gid(link_layer), "-c", "-p", port, "localhost")
    expect_pingpong(client.finish(), 4096, 1000)
    expect_pingpong(server.finish(), 4096, 1000)


def test_ten_runs_start_at_once(runs):
    """Whoever starts the daemon, all see the same device."""
    results = [program.finish() for program in [runs.start("ibv_devices") for _ in range(10)]]
    assert len({expect_success(result).stdout for result in results}) == 1, results
    assert "simhca0" in results[0].stdout


def test_private_runs_do_not_meet(launcher):
    """Two devices of two daemons have different GUIDs."""
    command = [SIMHCA, "run", "--private", "--", "ibv_devices"]
    first, second = [expect_success(launcher.run(*command)).stdout for _ in range(2)]
    assert "simhca0" in first and first != second
