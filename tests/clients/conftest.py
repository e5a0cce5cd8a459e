# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Devices for the tests: one daemon a module and link layer, checked after each test."""
import os
import pathlib
import signal
import tempfile

import pytest

pytest.register_assert_rewrite("common", "fio_rdma", "guest", "middleware", "rdmacm")

from common import LINK_LAYERS, Device, Launcher  # noqa: E402 (it is rewritten on import)
from common import device_of_nobody, new_port  # noqa: E402
from middleware import compiled  # noqa: E402
from pairwise import leave_out  # noqa: E402
from rdmacm import expect_no_ids  # noqa: E402


def pytest_configure(config):
    config.addinivalue_line("markers", "pairs(parameters, also): fewer of them by SIMHCA_CLIENTS=short (pairwise.py)")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    leave_out(config, items)


@pytest.fixture(scope="session", autouse=True)
def end_in_order():
    """SIGTERM, as from timeout(1), is ^C: no daemon and no program is left behind."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.fixture(scope="module", params=LINK_LAYERS)
def module_device(request):
    """A module may name link layers on which all of it, the daemon too, is run as nobody."""
    nobody = request.param in getattr(request.module, "NOBODY_ON", ())
    with (device_of_nobody if nobody else Device)(request.param) as device:
        yield device


@pytest.fixture
def device(module_device):
    """Ethernet, then InfiniBand. A test that leaves objects behind has failed."""
    pid = module_device.pid
    yield module_device
    module_device.kill_programs()
    module_device.expect_idle()
    assert module_device.pid == pid, "the daemon is another one than before the test"


@pytest.fixture
def port(device):
    """For a server of rdma_cm. Nothing is left of that in the end."""
    yield new_port()
    expect_no_ids(device)


@pytest.fixture(scope="module")
def programs():
    """A directory for what is compiled, which nobody can read, too."""
    with tempfile.TemporaryDirectory(prefix="simhca-") as path:
        os.chmod(path, 0o755)
        yield pathlib.Path(path)


@pytest.fixture(scope="module")
def bad_wire(programs):
    """What carries packets badly, as test_bad_wire.py says."""
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        pytest.skip("needs /dev/net/tun")
    return compiled(programs, "bad_wire.c")


@pytest.fixture
def launcher():
    """For what does without a daemon, or brings its own."""
    launcher = Launcher()
    yield launcher
    launcher.kill_programs()


@pytest.fixture(params=LINK_LAYERS)
def link_layer(request):
    return request.param
