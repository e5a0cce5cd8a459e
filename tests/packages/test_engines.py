# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
The CDI file in other container engines than podman: docker 26, and containerd 1.7 as Kubernetes uses it (CRI), of Debian
13's packages, in a tree of that release (engines.sh). Debian 12's docker 20.10 and containerd 1.6 know no CDI; neither does
the command ctr of containerd 1.7, whose --device takes paths alone. CRI-O and nerdctl are in no Debian release that was
tried, and were not run.
"""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

import pytest
from trees import ROOT, Tree

BUILD = pathlib.Path(os.environ.get("SIMHCA_BUILD", ROOT / "build")).resolve()
SIMHCA = BUILD / "bin" / "simhca"
DEVICE = "simhca.dev/hca=all"
COMMANDS = ["sh", "sleep", "env", "ibv_devices", "ibv_devinfo", "ib_write_bw"]

pytestmark = [
    pytest.mark.skipif(os.environ.get("SIMHCA_PACKAGES") == "short",
                       reason="in the long form only: scripts/test packages"),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: scripts/chroot")]


def run(*command, check=True, timeout=120):
    done = subprocess.run([*map(str, command)], text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=timeout, check=False)
    assert not check or done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}"
    return done.stdout


def wait_for(condition, what):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


class Engines:
    """Both of them, on a daemon of this host; sockets is a directory of ours and theirs."""

    def __init__(self, tree, runtime_dir, sockets):
        self.tree, self.runtime_dir, self.sockets = tree, runtime_dir, sockets

    def docker_command(self, *arguments):
        return [ROOT / "scripts/chroot", "run", "--offline", "--bind", self.sockets, self.tree.path,
                "docker", "-H", f"unix://{self.sockets}/docker", *arguments]

    def docker(self, *arguments, check=True):
        return run(*self.docker_command(*arguments), check=check)

    def contexts(self):
        status = json.loads(run(SIMHCA, "status", "--json", "--runtime-dir", self.runtime_dir))
        return [context for device in status["devices"] for context in device["context"]]


@pytest.fixture(scope="module")
def engines():
    run("cmake", "--build", BUILD, "--target", "siblings", timeout=1200)
    tree = Tree("trixie", "demo", "engines")
    runtime_dir, sockets = tempfile.mkdtemp(prefix="simhca-"), tempfile.mkdtemp(prefix="simhca-")
    run(SIMHCA, "start", "--runtime-dir", runtime_dir)
    try:
        yield from begun(tree, runtime_dir, sockets)
    finally:
        run(SIMHCA, "stop", "--runtime-dir", runtime_dir)
        for directory in runtime_dir, sockets:
            shutil.rmtree(directory)
        tree.remove()


def begun(tree, runtime_dir, sockets):
    """The engines, until the tests are over."""
    (tree.path / "etc/cdi").mkdir(exist_ok=True)
    run(SIMHCA, "cdi", "--output", tree.path / "etc/cdi/simhca.json", "--runtime-dir", runtime_dir)
    shutil.copy(ROOT / "tests/packages/engines.sh", tree.path)
    command = [ROOT / "scripts/chroot", "run", "--offline", "--bind", runtime_dir, "--bind", BUILD, "--bind", sockets,
               tree.path, "/engines.sh", sockets, *COMMANDS]
    log = pathlib.Path(sockets, "log")
    with log.open("w") as file, subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file) as process:
        try:
            wait_for(lambda: "\nready\n" in log.read_text() or process.poll() is not None, "engines")
            assert process.poll() is None, log.read_text()
            yield Engines(tree, runtime_dir, sockets)
        finally:
            process.terminate()


def test_docker(engines):
    """The device is there for who asks for it, by mounts alone."""
    without = engines.docker("run", "--rm", "--network", "none", "image", "ibv_devices", check=False)
    assert "simhca0" not in without and "Failed to get IB devices list" in without
    said = engines.docker("run", "--rm", "--network", "none", "--device", DEVICE, "image", "sh", "-c",
                          "ibv_devinfo; env -i /usr/bin/ibv_devinfo -l; env")
    assert said.count("simhca0") == 2 and "PORT_ACTIVE" in said and "LD_PRELOAD" not in said


def test_docker_server_and_client(engines):
    """The server by docker exec, the client in another container; the daemon reaches the memory of both itself."""
    engines.docker("run", "--detach", "--name", "server", "--network", "none", "--device", DEVICE, "image")
    words = ["ib_write_bw", "-n", "5000", "-s", "4096"]
    with subprocess.Popen(engines.docker_command("exec", "server", *words), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        wait_for(engines.contexts, "the server opens the device")
        assert [context["memory"] for context in engines.contexts()] == ["process_vm"]
        said = engines.docker("run", "--rm", "--network", "container:server", "--device", DEVICE, "image", *words,
                              "localhost")
        assert "BW average" in said
        said, _ = server.communicate(timeout=60)
        assert server.returncode == 0 and "BW average" in said, said
    engines.docker("rm", "--force", "server")


class Cri:
    """What kubelet asks of containerd: messages are written and read by their numbers in CRI's runtime.v1."""

    def __init__(self, socket):
        grpc = pytest.importorskip("grpc", reason="no python3-grpcio")
        from kubelet import field, fields
        self.field, self.fields = field, fields
        self.channel = grpc.insecure_channel(f"unix:{socket}")
        name = field(1, b"pod") + field(2, b"pod") + field(3, b"default")
        of_the_node = b"\x08\x02"  # the network's namespace: no plugin of CNI is there to make one
        self.sandbox = field(1, name) + field(8, field(2, field(1, of_the_node)))
        self.pod = self.call("RunPodSandbox", field(1, self.sandbox))[1][0]

    def call(self, name, request):
        return self.fields(self.channel.unary_unary(f"/runtime.v1.RuntimeService/{name}")(request, timeout=60))

    def container(self, name, *devices):
        field = self.field
        config = (field(1, field(1, name.encode())) + field(2, field(1, b"docker.io/library/image:latest")) +
                  b"".join(b"\x8a\x01" + bytes([len(device) + 2]) + field(1, device.encode()) for device in devices))
        request = field(1, self.pod) + field(2, config) + field(3, self.sandbox)
        container = self.call("CreateContainer", request)[1][0]
        self.call("StartContainer", field(1, container))
        return container

    def execute(self, container, *words):
        answer = self.call("ExecSync", self.field(1, container) + b"".join(self.field(2, word.encode()) for word in words))
        return b"".join(answer.get(1, []) + answer.get(2, [])).decode()

    def close(self):
        self.call("StopPodSandbox", self.field(1, self.pod))
        self.call("RemovePodSandbox", self.field(1, self.pod))
        self.channel.close()


def test_containerd(engines):
    """CRI's field for CDI devices, as kubelet fills it in by the device plugin's word: of a pod one container has it."""
    cri = Cri(f"{engines.sockets}/containerd")
    try:
        assert "simhca0" not in cri.execute(cri.container("without"), "ibv_devices")
        container = cri.container("with", DEVICE)
        assert "simhca0" in cri.execute(container, "ibv_devices")
        assert "PORT_ACTIVE" in cri.execute(container, "env", "-i", "/usr/bin/ibv_devinfo")
    finally:
        cri.close()
