# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""simhca-device-plugin, as kubelet sees it. No Kubernetes runs; what is in its place is in kubelet.py."""
import contextlib
import json
import pathlib
import signal
import tempfile

import pytest

grpc = pytest.importorskip("grpc", reason="no python3-grpcio")

from common import BUILD, TIME_LIMIT, SIMHCA, Device, Launcher, expect_success, wait_until  # noqa: E402
from kubelet import Kubelet, fields  # noqa: E402

PLUGIN = BUILD / "bin" / "simhca-device-plugin"
CDI_NAME = b"simhca.dev/hca=all"

pytestmark = pytest.mark.skipif(not PLUGIN.exists(), reason="not built: -DSIMHCA_KUBERNETES=ON")


@pytest.fixture
def device():
    with Device("ethernet") as made:
        yield made


@pytest.fixture
def directory():
    with tempfile.TemporaryDirectory(prefix="simhca-") as name:  # short: the address of a socket is
        yield pathlib.Path(name)


@contextlib.contextmanager
def plugin(device, directory, *options):
    launcher = Launcher()
    try:
        yield launcher.start(PLUGIN, "--runtime-dir", device.directory, "--kubelet-dir", directory,
                             "--interval", "0.1", *options)
    finally:
        launcher.kill_programs()


def wait_for_health(kubelet, word):
    wait_until(lambda: kubelet.health() == word, TIME_LIMIT, word)


def test_registers_and_allocates(device, directory):
    with Kubelet(directory) as kubelet, plugin(device, directory, "--count", "3") as program:
        wait_for_health(kubelet, "Healthy")
        registered, = kubelet.registrations
        assert registered.pop(4, [b""]) == [b""]  # options
        assert registered == {1: [b"v1beta1"], 2: [b"rdma-simhca.sock"], 3: [b"rdma/simhca"]}
        assert kubelet.lists == [dict.fromkeys(["simhca-0", "simhca-1", "simhca-2"], "Healthy")]
        # An answer for each container, with the name that CDI has for the device, however many it asks for.
        answers = kubelet.allocate(["simhca-0"], ["simhca-2", "simhca-1"])
        assert answers == [{5: [bytes([1 << 3 | 2, len(CDI_NAME)]) + CDI_NAME]}] * 2
        with pytest.raises(grpc.RpcError) as error:
            kubelet.allocate(["simhca-0", "simhca-3"])
        assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert "simhca-3: there is no such device" in error.value.details()
        program.send(signal.SIGTERM)
        assert program.finish().status == 0
        assert [file.name for file in directory.iterdir()] == ["kubelet.sock"]


def test_health_is_whether_the_daemon_answers(device, directory):
    with Kubelet(directory) as kubelet, plugin(device, directory) as program:
        wait_for_health(kubelet, "Healthy")
        expect_success(device.tool.run(SIMHCA, "stop"))
        wait_for_health(kubelet, "Unhealthy")
        device.start_daemon()
        wait_for_health(kubelet, "Healthy")
        pid = device.pid
        device.tool.run("kill", "-STOP", pid)
        try:
            wait_for_health(kubelet, "Unhealthy")
        finally:
            device.tool.run("kill", "-CONT", pid)
        wait_for_health(kubelet, "Healthy")
        assert [len(devices) for devices in kubelet.lists] == [100] * 5  # each change is told once
        assert program.stderr.count("does not answer") == 2


def test_kubelet_is_started_again(device, directory):
    """It forgets plugins, and removes their sockets; a plugin may be there before it, too."""
    kubelet = Kubelet(directory)
    with plugin(device, directory) as program:
        wait_until(lambda: "waiting for it" in program.stderr, TIME_LIMIT, "it waits")
        for _ in range(3):
            with kubelet:
                wait_for_health(kubelet, "Healthy")
                assert len(kubelet.registrations) == 1 and kubelet.allocate(["simhca-7"])
        assert program.stderr.count("is registered at") == 3


def test_its_socket_is_removed(device, directory):
    with Kubelet(directory) as kubelet, plugin(device, directory):
        wait_for_health(kubelet, "Healthy")
        (directory / "rdma-simhca.sock").unlink()
        wait_until(lambda: len(kubelet.registrations) == 2 and len(kubelet.lists) == 2, TIME_LIMIT, "it registers anew")
        assert kubelet.allocate(["simhca-0"])


def test_one_that_was_killed_has_left_its_socket(device, directory):
    with Kubelet(directory) as kubelet:
        for count in 1, 2:
            with plugin(device, directory) as program:
                wait_until(lambda: len(kubelet.lists) == count, TIME_LIMIT, "it registers")
                assert kubelet.allocate(["simhca-0"])
                program.send(signal.SIGKILL)
                program.finish()


def test_kubelet_refuses(device, directory):
    """It is told once, and tried again."""
    kubelet = Kubelet(directory)
    accept = kubelet.register

    def refuse(request, context):
        context.abort(grpc.StatusCode.PERMISSION_DENIED, "not today")

    kubelet.register = refuse
    with kubelet, plugin(device, directory) as program:
        wait_until(lambda: "PERMISSION_DENIED: not today" in program.stderr, TIME_LIMIT, "it complains")
        kubelet.stop()
        assert program.stderr.count("not today") == 1
        kubelet.register = accept
        kubelet.start()
        wait_for_health(kubelet, "Healthy")


def test_mounts_of_a_file(device, directory):
    """For engines without CDI: what the file has, as mounts."""
    file = directory.with_suffix(".json")
    with Kubelet(directory) as kubelet, plugin(device, directory, "--mounts-of", file):
        wait_for_health(kubelet, "Healthy")
        with pytest.raises(grpc.RpcError) as error:
            kubelet.allocate(["simhca-0"])
        assert error.value.code() == grpc.StatusCode.FAILED_PRECONDITION and str(file) in error.value.details()
        expect_success(device.tool.run(SIMHCA, "cdi", "--output", file))
        try:
            answer, = kubelet.allocate(["simhca-0"])
        finally:
            written = json.loads(file.read_text())
            file.unlink()
    assert set(answer) == {2}
    mounts = [fields(mount) for mount in answer[2]]
    assert [(mount[1][0].decode(), mount[2][0].decode(), bool(mount.get(3))) for mount in mounts] == [
        (mount["containerPath"], mount["hostPath"], "ro" in mount["options"])
        for mount in written["devices"][0]["containerEdits"]["mounts"]]


@pytest.mark.parametrize("option", [["--count", "0"], ["--count", "many"], ["--counts", "1"], ["there"]])
def test_wrong_options(option):
    result = Launcher().run(PLUGIN, *option)
    assert result.status == 2 and option[-1] in result.stderr
