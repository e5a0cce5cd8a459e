# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The pingpong programs of libibverbs: RC, UC, UD, SRQ, by polling and by events, validated."""
import pytest

from common import SIMHCA, bandwidth_lines, expect_success, gid, pingpong, start_pair, start_server
from namespaces import by_itself

PROGRAMS = ["ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong"]
MODES = {"polling": [], "events": ["-e"], "validated": ["-c"], "both": ["-e", "-c"]}
MTU = 4096

# (size, exchanges): around the MTU and its multiples, and far beyond.
SIZES = [(1, 500), (2, 500), (63, 500), (1023, 500), (1025, 500), (4095, 500), (4097, 500),
         (65536, 200), (65537, 200), (1 << 20, 50)]


@pytest.mark.pairs("module_device", "program", "mode")
@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
@pytest.mark.parametrize("program", PROGRAMS)
def test_modes(device, program, mode):
    """Every way of waiting, with and without a look at the data."""
    pingpong(device, program, *mode, size=2048, iters=2000)


@pytest.mark.pairs("module_device", "program", "size")
@pytest.mark.parametrize("size, iters", SIZES)
@pytest.mark.parametrize("program", ["ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_srq_pingpong"])
def test_sizes(device, program, size, iters):
    """Messages from one byte to 1 MiB; -m 4096 makes the multiples of the MTU matter."""
    pingpong(device, program, "-c", "-m", MTU, size=size, iters=iters)


@pytest.mark.parametrize("size", [1, 2, 63, 1024, MTU - 1, MTU])
def test_ud_sizes(device, size):
    """UD carries up to one MTU."""
    pingpong(device, "ibv_ud_pingpong", "-c", size=size, iters=500)


def test_ud_beyond_the_mtu(device):
    """The program refuses what the port's MTU cannot carry: it must be told the MTU right."""
    result = device.run("ibv_ud_pingpong", "-s", MTU + 1)
    assert result.status == 1, result
    assert f"Requested size larger than port MTU ({MTU})" in result.stderr, result


@pytest.mark.parametrize("mtu", [256, 512, 1024, 2048, 4096])
def test_path_mtu(device, mtu):
    """Each path MTU that an RC connection can have."""
    pingpong(device, "ibv_rc_pingpong", "-c", "-m", mtu, size=10000, iters=200)


@pytest.mark.parametrize("depth", [1, 2, 7])
def test_short_receive_queue(device, depth):
    """Few receives: on RC, a sender is told to wait (RNR), and no message is lost."""
    pingpong(device, "ibv_rc_pingpong", "-e", "-c", "-r", depth, iters=500)


@pytest.mark.parametrize("count", [1, 3, 64])
def test_srq_shared_by(device, count):
    """An SRQ below one QP, a few, many."""
    pingpong(device, "ibv_srq_pingpong", "-e", "-c", "-q", count, iters=2000)


@pytest.mark.parametrize("flags", [[], ["-e"]], ids=["polling", "events"])
def test_xrc(device, flags):
    """ibv_xsrq_pingpong: one XRC SRQ and domain, for two clients at once."""
    command = ["ibv_xsrq_pingpong", *gid(device.link_layer), "-n", 500, *flags]
    server, port = start_server(device, *command, "-c", 2)
    clients = [device.start(*command, "-p", port, "localhost") for _ in range(2)]
    for program in server, *clients:
        assert expect_success(program.finish()).stdout.endswith("success\n"), program.result()


@pytest.mark.parametrize("flags", [["-N", "-e"], ["-t"], ["-N", "-t", "-c"]], ids=" ".join)
def test_newer_verbs(device, flags):
    """
    -N posts with ibv_wr_*(), -t polls an extended CQ for timestamps. Not -t with -e: the program
    then gives up when a completion was polled already that an event announces, on any device.
    """
    pingpong(device, "ibv_rc_pingpong", *flags, iters=2000)


@pytest.mark.parametrize("program", PROGRAMS)
def test_with_and_without_a_gid(device, program):
    """On InfiniBand a GID may be used, too; on Ethernet a server refuses to do without."""
    if device.link_layer == "ib":
        pingpong(device, program, "-g", 0, "-e", "-c", size=2048)
        return
    # The server alone: ibv_srq_pingpong as a client reads from its dead server for ever.
    server = start_pair(device, program, "-n", 10)[0].finish()
    assert server.status == 1 and bandwidth_lines(server.stdout) == [], server
    assert "Failed to modify QP" in server.stderr or "Failed to create AH" in server.stderr, server


def test_the_command_of_the_documentation(launcher, link_layer):
    """simhca run with a server and a client in one shell, by the programs' own TCP port."""
    pingpong_command = "ibv_rc_pingpong -e -c -n 10000"
    if link_layer == "ethernet":
        pingpong_command = "ibv_rc_pingpong -g 0 -e -c -n 10000"
    layer = ["--link-layer", "ib"] if link_layer == "ib" else []
    result = launcher.run(*by_itself(SIMHCA, "run", "--private", *layer, "--", "sh", "-c",
                                     f"{pingpong_command} & sleep 1; {pingpong_command} localhost"))
    expect_success(result)
    assert bandwidth_lines(result.stdout) == [str(2 * 4096 * 10000)] * 2, result
    assert "invalid data" not in result.stdout and result.stderr == "", result


def test_many_at_once(device):
    """One daemon, five connections of all kinds, each with its own data."""
    flags = ["-g", 0] if device.link_layer == "ethernet" else []
    pairs = [start_pair(device, program, *flags, "-s", 2048, "-n", 1000, "-e", "-c")
             for program in [*PROGRAMS, "ibv_rc_pingpong"]]
    for program in sum(pairs, ()):
        result = expect_success(program.finish())
        assert bandwidth_lines(result.stdout) == [str(2 * 2048 * 1000)], result
        assert "invalid data" not in result.stdout, result
