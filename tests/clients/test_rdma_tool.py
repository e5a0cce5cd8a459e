# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""iproute2's rdma(8), unmodified: what it learns by RDMA netlink is what verbs and /sys say."""
import json
import os
import re
import signal

import pytest

from common import (HERE, TIME_LIMIT, SIMHCA, Device, expect_success, new_port, run_pair,
                    wait_until)

PYTHON = "/usr/bin/python3"
SYSFS = "/sys/class/infiniband/simhca0"
NO_ADMIN = ["setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin"]


def rdma(device, *words):
    """What it prints, from JSON."""
    result = expect_success(device.run("rdma", "-j", "-d", *words))
    assert result.stderr == "", result
    return json.loads(result.stdout or "[]")


def read(device, path):
    return expect_success(device.run("cat", f"{SYSFS}/{path}")).stdout.strip()


def refusal(device, *words):
    result = device.run("rdma", *words)
    assert result.status == 1 and result.stdout == "", result
    return result.stderr.strip()


def hold_objects(device, count=0):
    """A program with objects of each kind, and what verbs say of them."""
    program = device.start(PYTHON, HERE / "verbs_objects.py", device.link_layer, count)
    wait_until(lambda: program.stdout.endswith("\n") or not program.running, 30, "objects")
    assert program.running, program.result()
    return program, json.loads(program.stdout)


# ------------------------------------------------------------------------------- the device


def test_dev(device):
    """rdma dev: identity as in /sys, capabilities as ibv_devinfo shows them."""
    shown, = rdma(device, "dev", "show")
    assert shown["ifindex"] == 0 and shown["ifname"] == "simhca0"
    assert shown["node_type"] == "ca" and shown["adaptive-moderation"] is False
    assert shown.get("protocol") in (None, {"ethernet": "roce", "ib": "ib"}[device.link_layer])
    for ours, theirs in ("fw", "fw_ver"), ("node_guid",) * 2, ("sys_image_guid",) * 2:
        assert shown[ours] == read(device, theirs)
    verbose = expect_success(device.run("ibv_devinfo", "-v")).stdout
    flags = int(re.search(r"device_cap_flags:\s+0x([0-9a-f]+)", verbose)[1], 16)
    assert len(shown["caps"]) - shown["caps"].count("UNKNOWN") == bin(flags).count("1")
    assert ("RAW_IP_CSUM" in shown["caps"]) == (device.link_layer == "ethernet")
    assert {"MEM_WINDOW_TYPE_2B", "MEM_MGT_EXTENSIONS", "XRC"} <= set(shown["caps"])
    text = expect_success(device.run("rdma", "-p", "-d", "dev", "show", "simhca0")).stdout
    assert f"node_guid {shown['node_guid']} " in text and "caps: <" in text


def test_link(device):
    """rdma link: the port's state as in /sys; on Ethernet its interface, on InfiniBand its LIDs."""
    shown, = rdma(device, "link", "show")
    assert shown["ifname"] == "simhca0" and shown["port"] == 1
    assert f": {shown['state']}" in read(device, "ports/1/state") and shown["state"] == "ACTIVE"
    assert shown["physical_state"] == "LINK_UP"
    if device.link_layer == "ethernet":
        assert shown["netdev"] == read(device, "ports/1/gid_attrs/ndevs/0") == "lo"
        assert "lid" not in shown
    else:
        for name in "lid", "sm_lid":
            assert shown[name] == int(read(device, f"ports/1/{name}"), 16)
        assert shown["lmc"] == int(read(device, "ports/1/lid_mask_count"))
        assert shown["subnet_prefix"] == "fe80:0000:0000:0000" and "CM" in shown["caps"]
        assert "netdev" not in shown
    assert rdma(device, "link", "show", "simhca0/1") == [shown]


def test_system(device):
    """rdma system; and libibverbs asks it, too, whether fork() needs any care."""
    shown = expect_success(device.run("rdma", "system", "show")).stdout
    assert shown.startswith("netns shared ") and "copy-on-fork on" in shown
    assert "monitor on" not in shown
    asked = device.run(PYTHON, "-c", "import ctypes; print(ctypes.CDLL('libibverbs.so.1')"
                       ".ibv_is_fork_initialized())")
    assert asked.stdout == "2\n", asked  # IBV_FORK_UNNEEDED


INDICES = """
import ctypes
verbs = ctypes.CDLL("libibverbs.so.1")
verbs.ibv_get_device_list.restype = ctypes.POINTER(ctypes.c_void_p)
verbs.ibv_get_device_name.restype = ctypes.c_char_p
for device in verbs.ibv_get_device_list(None):
    if not device:
        break
    device = ctypes.c_void_p(device)
    print(verbs.ibv_get_device_name(device).decode(), verbs.ibv_get_device_index(device))
"""


def test_discovery():
    """
    libibverbs finds its devices by netlink, and so knows their indices. They are all: had the host
    RDMA devices, they would be no more there than in /sys.
    """
    with Device("ethernet", "--devices=3") as device:
        found = expect_success(device.run(PYTHON, "-c", INDICES)).stdout
        assert found.split() == "simhca0 0 simhca1 1 simhca2 2".split()
        listed = [(one["ifname"], one["ifindex"]) for one in rdma(device, "dev")]
        assert listed == [("simhca0", 0), ("simhca1", 1), ("simhca2", 2)]
        assert [one["ifname"] for one in rdma(device, "link")] == [name for name, _ in listed]
        assert refusal(device, "dev", "show", "simhca3") == "Wrong device name - simhca3"


def test_without_simhca(launcher):
    """Outside of simhca rdma(8) sees the host, which has no such device."""
    result = launcher.run("rdma", "dev", "show")
    assert "simhca" not in result.stdout, result


# ------------------------------------------------------------------------------ the objects


def test_resources(device):
    """rdma resource: each object, with the values that verbs know."""
    program, truth = hold_objects(device)

    def show(kind, *words):
        found = rdma(device, "res", "show", kind, *words)
        for one in found:
            assert one["ifname"] == "simhca0" and one["pid"] == truth["pid"]
            # iproute2 6.1 takes the name of an SRQ's process from memory that is another's by then.
            assert kind == "srq" or one["comm"] == truth["comm"]
        return found

    pd, = show("pd")
    context, = show("ctx")
    cq, = show("cq")
    assert pd["ctxn"] == cq["ctxn"] == context["ctxn"]
    assert cq["cqe"] == truth["cqe"] and cq["users"] == 2 * len(truth["all"])
    assert pd["users"] == len(truth["all"]) + len(truth["mr"]) + len(truth["srq"])

    for seen, told in zip(show("mr"), truth["mr"], strict=True):
        assert seen["mrlen"] == told["mrlen"] and seen["pdn"] == pd["pdn"]
        assert seen["mrn"] == told["lkey"] >> 8
        if os.geteuid() == 0:
            assert [int(str(seen[key]), 16) for key in ("lkey", "rkey")] == [told["lkey"],
                                                                          told["rkey"]]
    for seen, told in zip(show("srq"), truth["srq"], strict=True):
        assert seen["type"] == "BASIC" and seen["pdn"] == pd["pdn"]
        ranges = [list(map(int, str(part).split("-"))) for part in seen.get("lqpn", [])]
        assert [n for part in ranges for n in range(part[0], part[-1] + 1)] == told

    qps = {one["lqpn"]: one for one in show("qp")}
    assert sorted(qps) == sorted(truth["all"])
    assert all(one["pdn"] == pd["pdn"] for one in qps.values())
    ready = qps[truth["ready"]["lqpn"]]
    assert ready["state"] == "RTS" and ready["type"] == "RC" and ready["port"] == 1
    assert {name: ready[name] for name in truth["ready"]} == truth["ready"]
    assert ready["path-mig-state"] == "MIGRATED"
    assert qps[truth["reset"]]["state"] == "RESET" and "port" not in qps[truth["reset"]]
    assert qps[truth["ud"]]["type"] == "UD" and "rqpn" not in qps[truth["ud"]]
    assert show("qp", "link", "simhca0/1") == [ready]
    assert show("qp", "link", "simhca0/1", "lqpn", str(ready["lqpn"])) == [ready]
    assert show("mr", "dev", "simhca0", "mrn", str(truth["mr"][1]["lkey"] >> 8))[0]["mrlen"] == 1 << 20
    assert rdma(device, "res", "show", "cm_id") == []

    summary, = rdma(device, "res", "show")
    assert summary == {"ifindex": 0, "ifname": "simhca0", "pd": 1, "cq": 1, "qp": len(qps),
                       "cm_id": 0, "mr": 2, "ctx": 1, "srq": 2}
    text = expect_success(device.run("rdma", "res", "show", "qp", "lqpn", str(truth["ud"]))).stdout
    assert f"lqpn {truth['ud']} type UD state RESET" in text, text
    program.send(signal.SIGTERM)
    program.finish()
    wait_until(lambda: rdma(device, "res", "show")[0]["qp"] == 0, 10, "the objects go")


def test_cm_ids(device):
    """rdma resource show cm_id: both ends of a connection, and who listens at all addresses."""
    port = new_port()

    def shown():
        return rdma(device, "res", "show", "cm_id")

    server = device.start("rping", "-s", "-p", port)
    wait_until(lambda: shown() or not server.running, TIME_LIMIT, "the listener")
    listener, = shown()
    number = listener.pop("cm-idn")
    assert listener == {"ifindex": 0, "ifname": "simhca0", "state": "LISTEN", "ps": "TCP",
                        "pid": server.pid, "comm": "rping", "src-addr": f"0.0.0.0:{port}"}
    client = device.start("rping", "-c", "-a", "127.0.0.1", "-p", port, "-C", 1000000)
    wait_until(lambda: sum(one["state"] == "CONNECT" for one in shown()) == 2 or not client.running,
               TIME_LIMIT, "the connection")
    ends = {one["pid"]: one for one in shown() if one["state"] == "CONNECT"}
    assert set(ends) == {server.pid, client.pid}
    mine = ends[client.pid]
    assert mine["dst-addr"] == ends[server.pid]["src-addr"] == f"127.0.0.1:{port}"
    assert mine["src-addr"] == ends[server.pid]["dst-addr"] and mine["cm-idn"] != number
    assert mine["qp-type"] == "RC" and mine["port"] == 1
    assert mine["lqpn"] in [one["lqpn"] for one in rdma(device, "res", "show", "qp")]
    # The same in words; and those at a port, by what they are asked for.
    text = expect_success(device.run("rdma", "-d", "res", "show", "cm_id", "lqpn",
                                     str(mine["lqpn"]))).stdout
    assert text.split() == (
        f"link simhca0/1 cm-idn {mine['cm-idn']} lqpn {mine['lqpn']} qp-type RC state CONNECT ps TCP "
        f"pid {client.pid} comm rping src-addr {mine['src-addr']} dst-addr {mine['dst-addr']}").split()
    assert len(rdma(device, "res", "show", "cm_id", "link", "simhca0/1")) == 2
    assert rdma(device, "res", "show")[0]["cm_id"] == 3
    client.kill()
    server.kill()
    wait_until(lambda: not shown(), 10, "the ids go")
    # One at an address of the device knows the family of who will ask.
    server = device.start("rping", "-s", "-a", "127.0.0.1", "-p", port)
    wait_until(lambda: shown() or not server.running, TIME_LIMIT, "the listener")
    listener, = shown()
    assert (listener["src-addr"], listener["dst-addr"]) == (f"127.0.0.1:{port}", "0.0.0.0:0")
    server.kill()
    wait_until(lambda: not shown(), 10, "it goes")


def test_many(device):
    """A list of a thousand QPs, in many parts."""
    _, truth = hold_objects(device, 1000)
    found = [one["lqpn"] for one in rdma(device, "res", "show", "qp")]
    assert sorted(found) == sorted(truth["all"]) and len(found) == 1006


def test_keys_are_for_administrators(device):
    """Keys of regions are told to who has CAP_NET_ADMIN, as by a kernel."""
    _, truth = hold_objects(device)
    shown = expect_success(device.run(*NO_ADMIN, "rdma", "-j", "res", "show", "mr")).stdout
    assert [one["mrlen"] for one in json.loads(shown)] == [one["mrlen"] for one in truth["mr"]]
    assert "lkey" not in shown and "rkey" not in shown
    assert ("lkey" in rdma(device, "res", "show", "mr")[0]) == (os.geteuid() == 0)


# ----------------------------------------------------------------------------- the counters


def test_statistic(device):
    """rdma statistic: the hw_counters of the port, by the same names, as of now."""
    before, = rdma(device, "statistic", "show", "link", "simhca0/1")
    for result in run_pair(device, "ib_write_bw", "-F", "-n", 100, "-s", 2):
        expect_success(result)
    after, = rdma(device, "statistic", "show")
    assert after["rx_write_requests"] - before["rx_write_requests"] == 100
    names = expect_success(device.run("ls", f"{SYSFS}/ports/1/hw_counters")).stdout.split()
    assert set(after) - {"ifname", "port"} == set(names) - {"lifespan"}
    wait_until(lambda: all(int(read(device, f"ports/1/hw_counters/{name}")) == after[name]
                           for name in ("rx_write_requests", "req_cqe_error")),
               10, "the files of /sys say the same")


def test_statistic_of_regions(device):
    """Page counters of an on-demand region, as mlx5 has them; QPs have no counters of their own."""
    hold_objects(device)
    ordinary, paged = rdma(device, "statistic", "mr")
    assert {"page_faults", "page_invalidations", "page_prefetch"} <= set(paged)
    assert "page_faults" not in ordinary
    assert rdma(device, "statistic", "qp", "show") == []
    assert rdma(device, "statistic", "qp", "mode")[0]["mode"] == "qp auto off"


# ---------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize("words, reason", [
    ("dev set simhca0 name other", "Operation not supported"),
    ("dev set simhca0 adaptive-moderation on", "Operation not supported"),
    ("system set netns exclusive", "Operation not supported"),
    ("statistic qp set link simhca0/1 auto type on", "Operation not supported"),
    ("link add other type rxe netdev lo", "Invalid argument"),
    ("link delete simhca0", "Invalid argument"),
])
def test_refusals(device, words, reason):
    """What would change the device is refused: to administrators, and first of all to others."""
    if os.geteuid() == 0:
        assert refusal(device, *words.split()) == f"error: {reason}"
    result = device.run(*NO_ADMIN, "rdma", *words.split())
    assert result.status == 1 and "Operation not permitted" in result.stderr, result


def test_daemon_has_died(link_layer):
    """Nothing waits for a daemon that is not there: to programs, this is a kernel without RDMA."""
    with Device(link_layer) as device:
        os.kill(device.pid, signal.SIGKILL)
        wait_until(lambda: device.tool.run(SIMHCA, "status").status, 10, "the daemon's end")
        result = device.run("rdma", "dev", "show")
        assert result.status == 1 and "Failed to open NETLINK_RDMA socket" in result.stderr, result
        assert device.run("ibv_devices").status == 0


def test_run(launcher, link_layer):
    """simhca run is all that it takes."""
    result = launcher.run(SIMHCA, "run", "--private", f"--link-layer={link_layer}", "--", "rdma",
                          "link")
    assert re.match("link simhca0/1 .*state ACTIVE ", expect_success(result).stdout), result
