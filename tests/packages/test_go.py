# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
Libraries in Go that Kubernetes' plugins for RDMA are made of, in static programs under simhca run: vishvananda/netlink,
which asks by RDMA netlink, and Mellanox/rdmamap, which reads files, where SIMHCA_RDMAMAP is a git repository of it.
"""
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("SIMHCA_BUILD", ROOT / "build")).resolve()
RDMAMAP = os.environ.get("SIMHCA_RDMAMAP")
PACKAGED = pathlib.Path("/usr/share/gocode")
NETLINK = """
package main

import (
	"fmt"

	"github.com/vishvananda/netlink"
)

func main() {
	links, err := netlink.RdmaLinkList()
	for _, link := range links {
		fmt.Println(link.Attrs.Name, len(link.Attrs.NodeGuid), err)
	}
	link, err := netlink.RdmaLinkByName("mlx5_0")
	fmt.Println(link.Attrs.Index, err)
	fmt.Println(netlink.RdmaSystemGetNetnsMode())
}
"""
MAP = """
package main

import (
	"fmt"

	"github.com/Mellanox/rdmamap"
)

func main() {
	for _, device := range rdmamap.GetRdmaDeviceList() {
		fmt.Println(device, rdmamap.GetRdmaCharDevices(device))
		stats, err := rdmamap.GetRdmaSysfsAllPortsStats(device)
		fmt.Println(len(stats.PortStats), len(stats.PortStats[0].Stats) > 10, len(stats.PortStats[0].HwStats) > 10, err)
	}
	fmt.Println(rdmamap.GetRdmaDevicesForPcidev("5343:00:00.0"))
}
"""

pytestmark = [
    pytest.mark.skipif(os.environ.get("SIMHCA_PACKAGES") == "short",
                       reason="in the long form only: scripts/test packages"),
    pytest.mark.skipif(not (PACKAGED / "src/github.com/vishvananda/netlink").exists(),
                       reason="no golang-github-vishvananda-netlink-dev: scripts/install-deps containers")]


def run(*command, **variables):
    done = subprocess.run([*map(str, command)], text=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=600,
                          check=False, env=os.environ | variables)
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def go(tmp_path_factory):
    """go(CODE): a static program; what is not in Debian's packages is in the directory that is yielded with it."""
    directory = tmp_path_factory.mktemp("go")

    def build(code):
        (directory / "main.go").write_text(code)
        run("go", "build", "-o", directory / "program", directory / "main.go", CGO_ENABLED="0", GO111MODULE="off",
            GOPATH=f"{directory}:{PACKAGED}", GOCACHE=str(directory / "cache"), GOFLAGS="-modcacherw")
        return directory / "program"

    build.directory = directory
    return build


def test_netlink(go):
    program = go(NETLINK)
    assert run(BUILD / "bin/simhca", "run", "--private", "--profile", "connectx-7", "--devices", "2", "--", program) == [
        "mlx5_0 23 <nil>", "mlx5_1 23 <nil>", "0 <nil>", "shared <nil>"]


@pytest.mark.skipif(not RDMAMAP, reason="in the long form only, where SIMHCA_RDMAMAP names a repository of Mellanox/rdmamap")
@pytest.mark.parametrize("options, name, nodes, pci", [
    (["--link-layer=ib"], "simhca0", "issm0 umad0 uverbs0 rdma_cm", ""),
    (["--profile=connectx-7"], "mlx5_0", "uverbs0 rdma_cm", "mlx5_0")], ids=["InfiniBand", "ConnectX-7"])
def test_rdmamap(go, options, name, nodes, pci):
    sources = go.directory / "src/github.com/Mellanox/rdmamap"
    sources.mkdir(parents=True, exist_ok=True)
    for file in "rdma_map.go", "rdma_stats.go":
        (sources / file).write_text("\n".join(run("git", "-C", RDMAMAP, "show", f"HEAD:{file}")) + "\n")
    program = go(MAP)
    paths = " ".join(f"/dev/infiniband/{node}" for node in nodes.split())
    assert run(BUILD / "bin/simhca", "run", "--private", *options, "--", program) == [
        f"{name} [{paths}]", "1 true true <nil>", f"[{pci}]"]
