# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""MADs of programs: infiniband-diags, srptools, ibacm and opensm on the subnet that the devices are in."""
import contextlib
import os
import re
import stat

import pytest

from common import SIMHCA, Device, expect_success, start_server, wait_until

NUMBER = re.compile(r"^(\w+):\.*(\d+)$", re.M)


@pytest.fixture(scope="module")
def subnet():
    """Two devices, LIDs 1 and 2, and the switch, LID 3; the subnet manager is at LID 1."""
    with Device("ib", "--devices=2") as device:
        yield device


def output(device, *argv):
    return expect_success(device.run(*argv)).stdout


def guids(device):
    return [output(device, "cat", f"/sys/class/infiniband/simhca{i}/node_guid").strip().replace(":", "")
            for i in range(2)]


def at_first(tool, *arguments):
    """The tools take the last device unless they are told."""
    return tool, "-C", "simhca0", *arguments


def pingpong(device, server, client):
    """500 messages of 4096 bytes each way."""
    program, port = start_server(device, "ibv_rc_pingpong", "-d", server, "-n", "500")
    expect_success(device.run("ibv_rc_pingpong", "-d", client, "-n", "500", "-p", port, "localhost"))
    expect_success(program.finish())


# ------------------------------------------------------------------------- the subnet's tools


def test_nodes(subnet):
    """ibnetdiscover, ibhosts and ibswitches find two devices by directed routes, and the switch between them."""
    first, second = guids(subnet)
    found = output(subnet, *at_first("ibnetdiscover"))
    assert re.search(r'^Switch\t2 "S-[0-9a-f]{16}".*"simhca switch" base port 0 lid 3', found, re.M), found
    for port, guid in (1, first), (2, second):
        assert re.search(rf'^\[{port}\]\t"H-{guid}"\[1\].* lid {port} 4xEDR', found, re.M), found
    assert set(output(subnet, "ibhosts", "-C", "simhca0").strip().split("\n")) == {
        f'Ca\t: 0x{guid} ports 1 "simhca{i}"' for i, guid in enumerate((first, second))}
    assert re.fullmatch(r'Switch\t: 0x[0-9a-f]{16} ports 2 "simhca switch" base port 0 lid 3 lmc 0\n',
                        output(subnet, "ibswitches", "-C", "simhca0"))


def test_links(subnet):
    """iblinkinfo: both links, active, from both ends."""
    shown = output(subnet, *at_first("iblinkinfo"))
    assert shown.count("Active/  LinkUp") == 4, shown


def test_routes(subnet):
    """ibroute shows the switch's table, and ibtracert goes by it."""
    table = output(subnet, *at_first("ibroute", "3"))
    assert re.findall(r"^(0x\w+) (\d+) :", table, re.M) == [("0x0001", "001"), ("0x0002", "002"), ("0x0003", "000")]
    steps = output(subnet, *at_first("ibtracert", "1", "2"))
    assert re.findall(r"lid (\d)-\d", steps) == ["1", "3", "2", "2"], steps


def test_ports(subnet):
    """ibaddr and smpquery: by LID, by a directed route, and by one behind a LID."""
    assert "LID start 0x1 end 0x1" in output(subnet, *at_first("ibaddr"))
    for arguments in ["nodeinfo", "2"], ["-D", "nodeinfo", "0,1,2"], ["-c", "nodeinfo", "3", "0,2"]:
        assert f"Guid:............................0x{guids(subnet)[1]}" in output(
            subnet, *at_first("smpquery", *arguments))
    info = output(subnet, *at_first("smpquery", "portinfo", "2"))
    assert "LinkState:.......................Active" in info and "Lid:.............................2" in info
    assert "simhca1" in output(subnet, *at_first("smpquery", "nodedesc", "2"))
    assert "0xffff" in output(subnet, *at_first("smpquery", "pkeys", "2"))
    assert guids(subnet)[1] in output(subnet, *at_first("smpquery", "guidinfo", "2")).replace("0x", "")
    assert "LinearFdbTop:....................3" in output(subnet, *at_first("smpquery", "switchinfo", "3"))


def test_nobody(subnet):
    """What leads nowhere times out; an attribute that a node does not have is an error at once."""
    for arguments in ["nodeinfo", "99"], ["-D", "nodeinfo", "0,1,1,1"], ["-D", "nodeinfo", "0,2"]:
        result = subnet.run(*at_first("smpquery", *arguments))
        assert result.status and "_do_madrpc failed" in result.stderr, result
    result = subnet.run(*at_first("smpquery", "switchinfo", "2"))
    assert result.status and "_do_madrpc failed" not in result.stderr, result


def test_manager(subnet):
    """sminfo: the daemon's own; no program sets what it manages."""
    assert re.search(rf"sm lid 1 sm guid 0x{guids(subnet)[0].lstrip('0')}, activity count \d+ priority 0 "
                     "state 3 SMINFO_MASTER", output(subnet, *at_first("sminfo")))
    result = subnet.run(*at_first("ibportstate", "1", "1", "disable"))
    assert result.status and "set portinfo failed" in result.stdout, result
    assert "State: Active" in output(subnet, "ibstat", "simhca0")


def test_records(subnet):
    """saquery: nodes, ports, paths and more; one path by its ends; a table of more than one MAD."""
    def query(*arguments):
        return output(subnet, *at_first("saquery", *arguments))

    assert query("--list").split("\n")[2:4] == ['     1  "simhca0"', '     2  "simhca1"']
    assert query("PIR").count("PortInfoRecord dump") == 5 and query("LR").count("LinkRecord dump") == 4
    paths = query("-p")
    assert paths.count("PathRecord dump") == 9
    path = query("--src-to-dst", "1:2")
    assert path.count("PathRecord dump") == 1
    assert re.search(r"dlid\.+2\n\s+slid\.+1\n", path) and re.search(r"mtu\.+0x85", path)
    assert query("SMIR").count("SMInfoRecord dump") == 1 and "0xffff" in query("PKTR")
    assert query("SWIR").count("SwitchInfoRecord dump") == 1 and query("MCMR") == "" and query("SR") == ""


# --------------------------------------------------------------------------- counters and GMPs


def counters(device, *arguments):
    return {name: int(value) for name, value in NUMBER.findall(output(device, *at_first("perfquery", *arguments)))}


def test_counters(subnet):
    """perfquery: what a program has sent is counted, also at the switch; a reset begins anew."""
    before = counters(subnet, "-x", "1", "1")
    pingpong(subnet, "simhca1", "simhca0")
    after = counters(subnet, "-x", "1", "1")
    moved = after["PortXmitData"] - before["PortXmitData"]
    assert moved >= 500 * 4096 // 4, (before, after)
    other, there = counters(subnet, "-x", "2", "1"), counters(subnet, "-x", "3", "1")
    assert other["PortRcvData"] == after["PortXmitData"] == there["PortRcvData"]
    assert counters(subnet, "-x", "1", "1")["PortXmitPkts"] == after["PortXmitPkts"]
    output(subnet, *at_first("perfquery", "-x", "-R", "1", "1"))
    assert counters(subnet, "-x", "1", "1")["PortXmitData"] == 0
    assert counters(subnet, "1", "1")["PortXmitData"] > 0, "these have a reset of their own"
    assert counters(subnet, "-x", "2", "1")["PortXmitData"] == other["PortXmitData"]


@pytest.mark.parametrize("server, client, lid", [("simhca0", "simhca1", 1), ("simhca1", "simhca0", 2),
                                                 ("simhca0", "simhca0", 1)])
def test_ibping(subnet, server, client, lid):
    """Two programs with MADs of a vendor's class, by LID and by GUID; without the server nobody answers."""
    with contextlib.closing(Server(subnet, "ibping", "-S", "-C", server)):
        wait_until(lambda: "0% packet loss" in subnet.run(
            "ibping", "-C", client, "-c", "1", str(lid)).stdout.replace("100%", ""), 30, "a pong")
        guid = guids(subnet)[int(server[-1])]
        shown = output(subnet, "ibping", "-C", client, "-c", "2", "-G", f"0x{guid}")
        assert "2 packets transmitted, 2 received, 0% packet loss" in shown
    shown = subnet.run("ibping", "-C", client, "-c", "1", "-t", "200", str(lid)).stdout
    assert "0 received, 100% packet loss" in shown


def test_without_preload(subnet):
    """The tools again, by system calls that simhca run answers: they say the same; a table of several MADs, and ibping."""
    tools = ["ibhosts -C simhca0", "sminfo -C simhca0", "saquery -C simhca0 -p", "smpquery -C simhca0 -D nodeinfo 0,1,2",
             "ibstat", "stat -c %t:%T:%a /dev/infiniband/umad0"]
    script = (f"{'; '.join(tools)}; case $LD_PRELOAD in *simhca*) exit 1;; esac; ibping -S -C simhca1 & server=$!; "
              "until ibping -C simhca0 -c 1 2 | grep -q ' 0% '; do kill -0 $server || exit; done; "
              "ibping -C simhca0 -c 2 2 >&2; status=$?; kill $server; exit $status")
    result = expect_success(subnet.tool.run(SIMHCA, "run", "--show", "seccomp", "--", "sh", "-c", script))
    expected = "".join(output(subnet, *tool.split()) for tool in tools)
    counts = re.compile(r"activity count \d+")
    assert counts.sub("", result.stdout) == counts.sub("", expected) and "PathRecord dump" in expected
    assert "2 packets transmitted, 2 received, 0% packet loss" in result.stderr


class Server:
    """A program that runs until it is killed."""

    def __init__(self, device, *argv):
        self.program = device.start(*argv)

    def close(self):
        self.program.kill()


# ---------------------------------------------------------------------------------- the rest


def test_srp_daemon(subnet):
    """srp_daemon -o looks for targets, finds none, and ends."""
    assert output(subnet, "srp_daemon", "-o", "-n", "-d", "/dev/infiniband/umad0") == ""


@pytest.mark.skipif(not os.access("/run", os.W_OK), reason="ibacm's socket is in /run")
def test_ibacm(subnet):
    """ibacm resolves LIDs and GIDs to paths, and the subnet administrator verifies them."""
    files = subnet.new_directory()
    assert subnet.run("ib_acme", "-A", "-O", "-D", files).status == 0
    options = files / "ibacm_opts.cfg"
    for name, value in ("log_file", files / "log"), ("lock_file", files / "lock"), ("server_mode", "unix"):
        options.write_text(re.sub(f"^{name} .*", f"{name} {value}", options.read_text(), flags=re.M))
    gids = [output(subnet, "cat", f"/sys/class/infiniband/simhca{i}/ports/1/gids/0").strip() for i in range(2)]
    with contextlib.closing(Server(subnet, "ibacm", "-P", "-A", files / "ibacm_addr.cfg", "-O", options)):
        for kind, source, destination in ("l", "1", "2"), ("g", *gids):
            def resolve():
                return subnet.run("ib_acme", "-f", kind, "-s", source, "-d", destination, "-v").stdout
            wait_until(lambda: "SA verification: success" in resolve(), 60, "verification")
            assert re.search(r"dlid: 2\n +slid: 1\n", resolve())


def test_nodes_of_the_tree(subnet):
    """umadN and issmN are root's, with a device number each; RoCE devices have none."""
    names = output(subnet, "ls", "/sys/class/infiniband_mad").split()
    assert names == ["abi_version", "issm0", "issm1", "umad0", "umad1"]
    shown = [output(subnet, "stat", "-c", "%f %t:%T", f"/dev/infiniband/{name}").split() for name in names[1:]]
    assert {int(mode, 16) for mode, _ in shown} == {stat.S_IFCHR | 0o600} and len({dev for _, dev in shown}) == 4
    with Device("ethernet") as ethernet:
        assert output(ethernet, "ls", "/sys/class/infiniband_mad") == "abi_version\n"


def test_opensm():
    """--sm off: ports wait in INIT for opensm, which brings up four devices; then messages pass, and its SA answers."""
    with Device("ib", "--devices=4", "--daemon-option", "sm=off") as device:
        shown = output(device, "ibstat")
        assert shown.count("State: Initializing") == 4 and shown.count("Base lid: 0") == 4
        files = device.new_directory()
        log = files / "log"
        device.env |= {"OSM_TMP_DIR": str(files), "OSM_CACHE_DIR": str(files)}
        with contextlib.closing(Server(device, "opensm", "-d", "2", "-f", log, "-g", "0x" + guids(device)[0])):
            wait_until(lambda: log.exists() and "SUBNET UP" in log.read_text(), 60, "SUBNET UP")
            assert "ERR" not in log.read_text()
            shown = output(device, "ibstat")
            assert shown.count("State: Active") == 4 and shown.count("SM lid: 1\n") == 4
            lids = {int(lid) for lid in re.findall(r"Base lid: (\d+)", shown)}
            assert len(lids) == 4 and 0 not in lids
            assert "SMINFO_MASTER" in output(device, "sminfo", "-C", "simhca2")
            assert output(device, "saquery", "-C", "simhca2", "--list").count("simhca") >= 4
            pingpong(device, "simhca3", "simhca1")
        assert "sm lid" not in device.run("sminfo", "-C", "simhca2").stdout
