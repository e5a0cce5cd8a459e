# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
uDAPL's own tests. Of its providers, scm connects by TCP, ofa by rdma_cm, and ucm by datagrams to
LIDs, so on InfiniBand only.
"""
import pytest

from common import TIME_LIMIT, expect_success, wait_until
from link_layers import LINK_LAYERS
from releases import needs

NOBODY_ON = ["ib"]
PROVIDERS = [*((layer, name) for layer in LINK_LAYERS for name in ("scm", "ofa")), ("ib", "ucm")]
# What each is told of the device: its name and port, or an address of it.
PARAMETERS = {"scm": "simhca0 1", "ofa": "127.0.0.1 0", "ucm": "simhca0 1"}
SMALL = ["-b", 65536, "-B", 10]


@pytest.fixture
def dat(device):
    """The environment in which there is simhca-scm, and so on."""
    registry = device.new_directory() / "dat.conf"
    registry.write_text("".join(
        f'simhca-{name} u2.0 nonthreadsafe default libdaplo{name.removeprefix("o")}.so.2 dapl.2.0 '
        f'"{parameters}" ""\n' for name, parameters in PARAMETERS.items()))
    return {"DAT_OVERRIDE": str(registry)}


def run(device, dat, program, provider, client_flags, *flags):
    """A server, a client when it is there, and both their ends."""
    server = device.start(program, "-P", f"simhca-{provider}", "-s", *flags, **dat)
    wait_until(lambda: "waiting for client" in server.stdout or not server.running, TIME_LIMIT, "it listens")
    client = device.run(program, "-P", f"simhca-{provider}", *client_flags, "-h", "localhost",
                        *flags, **dat)
    return expect_success(client), expect_success(server.finish())


@needs("dtest")
@pytest.mark.pairs("module_device", "provider", "flags")
@pytest.mark.parametrize("module_device, provider", PROVIDERS, indirect=["module_device"])
@pytest.mark.parametrize("flags", [["-p"], ["-W", "-D"]], ids=["-p", "-W -D"])
def test_dtest(device, dat, provider, flags):
    """Messages, RDMA writes and reads; -D checks the data that -W writes to and fro."""
    for result in run(device, dat, "dtest", provider, [], *SMALL, *flags):
        assert "DAPL Test Complete. PASSED" in result.stdout, result
