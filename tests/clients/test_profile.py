# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""--profile and --device-name: what programs see of a device that looks like a NIC, and that it works."""
import json
import re

import pytest

from common import SIMHCA, Device, expect_success, fields, output, pingpong
from link_layers import LINK_LAYER_NAMES

PROFILES = {  # name: device, verbs' vendor and part, board, CA type, PCI's vendor and device, Gb/s
    "connectx-5": ("mlx5_0", "0x02c9", 4119, "MT_0000000008", "MT4119", "0x15b3 0x1017", "100"),
    "connectx-6": ("mlx5_0", "0x02c9", 4123, "MT_0000000223", "MT4123", "0x15b3 0x101b", "200"),
    "connectx-6-dx": ("mlx5_0", "0x02c9", 4125, "MT_0000000359", "MT4125", "0x15b3 0x101d", "100"),
    "connectx-7": ("mlx5_0", "0x02c9", 4129, "MT_0000000838", "MT4129", "0x15b3 0x1021", "400"),
    "connectx-8": ("mlx5_0", "0x02c9", 4131, "MT_0000001222", "MT4131", "0x15b3 0x1023", "800"),
    "e810": ("irdma0", "0x8086", 5522, None, None, "0x8086 0x1592", "100"),
}


@pytest.mark.parametrize("profile", PROFILES)
def test_identity(link_layer, profile):
    """ibv_devinfo, ibstat, rdma and sysfs agree; messages go as ever."""
    name, vendor, part, board, ca_type, pci, rate = PROFILES[profile]
    with Device(link_layer, f"--profile={profile}") as device:
        shown = fields(output(device, "ibv_devinfo"))
        assert (shown["hca_id"], shown["vendor_id"], int(shown["vendor_part_id"])) == (name, vendor, part)
        assert shown.get("board_id") == board
        assert shown["link_layer"] == LINK_LAYER_NAMES[link_layer]
        assert shown["fw_ver"] in output(device, "rdma", "dev", "show", name)
        place = f"/sys/class/infiniband/{name}"
        assert output(device, "cat", f"{place}/device/vendor", f"{place}/device/device").split() == pci.split()
        assert output(device, "cat", f"{place}/ports/1/rate").startswith(f"{rate} Gb/sec (4X ")
        stat = output(device, "ibstat", name)
        assert (f"CA type: {ca_type}\n" in stat) == (ca_type is not None)
        assert f"Rate: {rate}\n" in stat
        pingpong(device, "ibv_rc_pingpong", "-c", "-d", name)
        device.expect_idle()


def test_status_says_whose_device_it_is(launcher):
    """Off by default; the driver is simhca's in any case, and `simhca status` says so."""
    for options, profile in ([], "simhca"), (["--profile=e810"], "e810"):
        with Device("ethernet", *options) as device:
            assert device.status()["devices"][0]["profile"] == profile
            said = expect_success(device.tool.run(SIMHCA, "status")).stdout
            assert ("identity of e810" in said) == (profile == "e810")
            place = "/sys/class/infiniband/*/device"
            assert output(device, "sh", "-c", f"cat {place}/modalias").startswith("simhca:")
            assert output(device, "sh", "-c", f"head -1 {place}/uevent") == "DRIVER=simhca\n"


@pytest.fixture(scope="module")
def two():
    with Device("ethernet", "--devices=2", "--profile=connectx-7", "--daemon-option=numa-node=0") as device:
        yield device


def test_pci_functions(two):
    """Each has one of its own, by all the names that lead there, and at its NUMA node."""
    for i in 0, 1:
        place = f"/sys/devices/pci5343:0{i}/5343:0{i}:00.0"
        for name in (f"/sys/class/infiniband/mlx5_{i}/device", f"/sys/bus/pci/devices/5343:0{i}:00.0",
                     f"/sys/class/pci_bus/5343:0{i}/../../5343:0{i}:00.0"):
            assert output(two, "realpath", name) == place + "\n"
        assert output(two, "realpath", f"{place}/subsystem") == "/sys/bus/pci\n"
        assert output(two, "cat", f"{place}/class", f"{place}/max_link_width").split() == ["0x020000", "16"]
        assert f"\nPCI_SLOT_NAME=5343:0{i}:00.0\n" in output(two, "cat", f"{place}/uevent")
        with open("/sys/devices/system/node/node0/cpulist", encoding="ascii") as cpulist:
            assert output(two, "cat", f"{place}/numa_node", f"{place}/local_cpulist") == "0\n" + cpulist.read()


def test_the_hosts_own_functions_stay(two, launcher):
    listing = ["ls", "/sys/bus/pci/devices", "/sys/devices"]
    assert output(two, *listing) == output(launcher, *listing)


def test_ucx(two):
    """It knows devices by their PCI addresses, and two of them apart."""
    said = output(two, "ucx_info", "-d")
    for name in "mlx5_0", "mlx5_1":
        found = re.findall(rf"Device: {name}:1\n#\s+Type: network\n#\s+System device: (\S+)", said)
        assert found and set(found) == {name}, said


def test_hwloc(two):
    said = output(two, "lstopo-no-graphics", "--of", "console")
    assert 'OpenFabrics "mlx5_0"' in said and 'OpenFabrics "mlx5_1"' in said


def test_any_name():
    """Names are free: those of hardware, and of udev's rules."""
    with Device("ethernet", "--devices=2", "--device-name=rocep5s0") as device:
        listed = output(device, "ibv_devinfo", "-l").split()
        assert sorted(listed[-2:]) == ["rocep5s0", "rocep5s1"]
        assert len(json.loads(output(device, "rdma", "-j", "dev"))) == 2
        pingpong(device, "ibv_rc_pingpong", "-c", "-d", "rocep5s1")


def test_names_of_other_providers(launcher):
    """librxe and libsiw take a device by its name, whatever it is: there can be none of these names."""
    for name in "rxe0", "siw1":
        result = launcher.run(SIMHCA, "run", "--private", f"--device-name={name}", "--", "true")
        assert result.status == 125 and f"is lib{name[:3]}'s to libibverbs" in result.stderr, result


def test_a_node_that_there_is_not(launcher):
    result = launcher.run(SIMHCA, "run", "--private", "--daemon-option=numa-node=1023", "--", "true")
    assert result.status == 125 and "no such NUMA node" in result.stderr, result
