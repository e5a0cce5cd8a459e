# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Containers whose images know nothing of simhca: `simhca cdi`, and podman as it is in Debian.

The images are trees of Debian releases with perftest and ibverbs-utils, that scripts/chroot makes. Each
container has a layer of its own on top of one, a pid namespace, and the network of the first.
"""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import uuid

import pytest
from trees import ROOT, Tree

BUILD = pathlib.Path(os.environ.get("SIMHCA_BUILD", ROOT / "build")).resolve()
SIMHCA = BUILD / "bin" / "simhca"
CDI_FILE = pathlib.Path("/etc/cdi/simhca.json")
# What needs no systemd, no subordinate IDs and no network of its own.
PODMAN = ["podman", "--runtime", "runc", "--cgroup-manager", "cgroupfs"]
# The limits of a place that is a container itself may not be raised, as podman's defaults would.
LIMITS = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000"]
DEVICE = ["--device", "simhca.dev/hca=all"]
NOBODY = 65534
IMAGES = ["bookworm", "trixie"]

pytestmark = [
    pytest.mark.skipif(
        os.environ.get("SIMHCA_PACKAGES") == "short",
        reason="in the long form only: scripts/test packages"),
    pytest.mark.skipif(
        os.geteuid() != 0 or not shutil.which("podman") or not shutil.which("runc"),
        reason="needs root, podman and runc: scripts/install-deps containers")]


def run(*command, check=True, timeout=120):
    done = subprocess.run([*map(str, command)], text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=timeout, check=False)
    assert not check or done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}"
    return done.stdout


@pytest.fixture(scope="module")
def daemon():
    """Of the host; yields its runtime directory."""
    directory = tempfile.mkdtemp(prefix="simhca-")
    run(SIMHCA, "start", "--runtime-dir", directory)
    yield directory
    run(SIMHCA, "stop", "--runtime-dir", directory)
    shutil.rmtree(directory)


@contextlib.contextmanager
def installed_for(directory):
    """The CDI file of that runtime directory; one that was there comes back."""
    before = CDI_FILE.read_bytes() if CDI_FILE.exists() else None
    assert run(SIMHCA, "cdi", "--install", "--runtime-dir", directory) == ""
    try:
        yield
    finally:
        if before is None:
            CDI_FILE.unlink()
        else:
            CDI_FILE.write_bytes(before)


@pytest.fixture(scope="module")
def siblings():
    """Providers for the libibverbs of images that are of another release than this host."""
    run("cmake", "--build", BUILD, "--target", "siblings", timeout=1200)


@pytest.fixture(scope="module")
def installed(daemon, siblings):
    with installed_for(daemon):
        yield daemon


@pytest.fixture(scope="module", params=IMAGES)
def image(request):
    tree = Tree(request.param, "demo")
    yield tree.path
    tree.remove()


def arguments(image, *options):
    """Of podman run: a container of the image, which itself stays as it is."""
    return [*PODMAN, "run", *LIMITS, *options, "--rootfs", f"{image}:O"]


@contextlib.contextmanager
def container(image, *options):
    """One that is there for others to come into; yields its name."""
    name = f"simhca-{uuid.uuid4().hex[:8]}"
    run(*arguments(image, "--detach", "--name", name, *options), "sleep", "infinity")
    try:
        yield name
    finally:
        run(*PODMAN, "rm", "--force", "--time", "0", name)


def contexts(directory):
    status = json.loads(run(SIMHCA, "status", "--json", "--runtime-dir", directory))
    return [context for device in status["devices"] for context in device["context"]]


def wait_for(condition, what):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def test_without_the_device(installed, image):
    """The image has nothing of simhca, and no program finds a device."""
    said = run(*arguments(image, "--rm", "--network", "none"), "sh", "-c",
               "ibv_devices 2>&1; ls /usr/lib/simhca /run/simhca 2>&1", check=False)
    assert "simhca0" not in said and said.count("No such file or directory") == 2


def test_with_the_device(installed, image):
    """All that was added are mounts: programs that clear their environment have the device, too."""
    said = run(*arguments(image, "--rm", "--network", "none", *DEVICE), "sh", "-c",
               "ibv_devinfo; env -i /usr/bin/ibv_devinfo -l; env")
    assert said.count("simhca0") == 2 and "PORT_ACTIVE" in said
    assert "LD_PRELOAD" not in said and "IBV_DRIVERS" not in said


def test_server_and_client(installed, image):
    """
    In two containers, on the daemon of the host, which reaches the memory of both itself. The server is
    started by podman exec, into a container whose own command knows nothing of RDMA.
    """
    with container(image, "--network", "none", *DEVICE) as name:
        server = subprocess.Popen([*PODMAN, "exec", name, "ib_write_bw", "-n", "5000", "-s", "4096"],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        wait_for(lambda: contexts(installed), "the server opens the device")
        pid, = {context["pid"] for context in contexts(installed)}
        assert pathlib.Path(f"/proc/{pid}/comm").read_text() == "ib_write_bw\n"  # its number on the host
        assert os.readlink(f"/proc/{pid}/ns/pid") != os.readlink("/proc/self/ns/pid")
        client = subprocess.Popen(
            arguments(image, "--rm", "--network", f"container:{name}", *DEVICE) +
            ["ib_write_bw", "-n", "5000", "-s", "4096", "localhost"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        seen = {}

        def both():
            seen.update({context["pid"]: context["memory"] for context in contexts(installed)})
            return len(seen) == 2 or client.poll() is not None

        wait_for(both, "the client opens the device")
        for process in client, server:
            said, _ = process.communicate(timeout=120)
            assert process.returncode == 0 and "BW average" in said, said
        assert list(seen.values()) == ["process_vm"] * 2, seen
    wait_for(lambda: not contexts(installed), "both have gone")


def test_while_no_daemon_runs(image, tmp_path):
    """
    Programs go on without a device; one that is started later is there for who comes then, as the directory
    is the same.
    """
    directory = tmp_path / "run"
    said = run(SIMHCA, "cdi", "--output", CDI_FILE.with_suffix(".later.json"), "--runtime-dir", directory)
    assert "no daemon runs in" in said
    file = CDI_FILE.with_suffix(".later.json")
    description = json.loads(file.read_text())
    description["kind"] = "simhca.dev/later"
    file.write_text(json.dumps(description))
    try:
        with container(image, "--network", "none", "--device", "simhca.dev/later=all") as name:
            devices = [*PODMAN, "exec", name, "ibv_devices"]
            assert "simhca0" not in run(*devices, check=False)
            for _ in range(2):
                run(SIMHCA, "start", "--runtime-dir", directory)
                assert "simhca0" in run(*devices)
                run(SIMHCA, "stop", "--runtime-dir", directory)
    finally:
        file.unlink()


@pytest.fixture
def home():
    """A directory that any user can come to; the address of a socket in it is short."""
    with tempfile.TemporaryDirectory(prefix="simhca-") as directory:
        os.chmod(directory, 0o755)
        yield pathlib.Path(directory)


def test_rootless(image, siblings, home):
    """A daemon and containers of a user who has nothing but one ID: a user namespace of podman's."""
    user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "env", "-i",
            f"PATH={os.environ['PATH']}", f"HOME={home}", f"XDG_RUNTIME_DIR={home}/run"]
    (home / "run").mkdir()
    tree = home / "tree"
    tree.mkdir()
    # An image of that user's: what podman would make of one, with that user's storage.
    run("sh", "-c", f"tar -C {image} --exclude=./dev/* -c . | tar -C {tree} --no-same-owner -x")
    run("chown", "-R", f"{NOBODY}:{NOBODY}", home)
    run(*user, SIMHCA, "start")
    try:
        with installed_for(home / "run" / "simhca"):
            said = run(*user, *PODMAN, "--storage-driver", "vfs", "run", "--rm", *LIMITS, "--network", "host",
                       *DEVICE, "--rootfs", tree, "sh", "-c",
                       "id -u; ib_write_bw -p 20123 >/dev/null & sleep 2; ib_write_bw -p 20123 localhost")
        assert "BW average" in said and "\n0\n" in f"\n{said}", said
    finally:
        run(*user, SIMHCA, "stop")


HOST = "/"  # what there is here, as an image: it has our build


def test_show_seccomp_under_the_default_profile(tmp_path):
    """
    simhca run answers system calls in a container whose own filter is podman's default: a filter that only answers
    is no second listener, and what we need is allowed. So a static program has the device there, too.
    """
    program, of_go = tmp_path / "static", tmp_path / "of_go"
    run("gcc", "-static", "-o", program, ROOT / "tests/tools/shown.c")
    run("env", "CGO_ENABLED=0", "GO111MODULE=off", f"GOCACHE={tmp_path}/cache", "go", "build", "-o", of_go,
        ROOT / "tests/tools/rdma_names.go")
    said = run(*arguments(HOST, "--rm", "--network", "none"), "sh", "-c",
               f"grep Seccomp: /proc/self/status; {SIMHCA} run --private --show seccomp -- {program}; "
               f"{SIMHCA} run --private -- {of_go} lo 5343:00:00.0")
    assert "Seccomp:\t2" in said and "entry simhca0" in said and "open ok" in said, said
    assert "simhca0 [/dev/infiniband/uverbs0 /dev/infiniband/rdma_cm]" in said, said


EFA_PAIR = "ib_send_bw -c SRD -F -x 0 >/dev/null & sleep 2; ib_send_bw -c SRD -F -x 0 localhost"


def test_efa(image, home):
    """The image's own libefa drives the device of the host's daemon."""
    run(SIMHCA, "start", "--model", "efa", "--runtime-dir", home / "run")
    try:
        with installed_for(home / "run"):
            said = run(*arguments(image, "--rm", "--network", "none", *DEVICE), "sh", "-c", f"ibv_devinfo; {EFA_PAIR}")
        assert "0x1d0f" in said and "BW average" in said, said
    finally:
        run(SIMHCA, "stop", "--runtime-dir", home / "run")


def test_efa_under_the_default_profile():
    """simhca run in a container, whose filter lets libefa's commands through, and has no userfaultfd to watch doorbells by."""
    said = run(*arguments(HOST, "--rm", "--network", "none"), "sh", "-c",
               f"grep Seccomp: /proc/self/status; {SIMHCA} run --private --model efa -- sh -c '{EFA_PAIR}'")
    assert "Seccomp:\t2" in said and "BW average" in said, said


@pytest.fixture(scope="module")
def musl(tmp_path_factory):
    """An image that is no Debian: musl's dynamic linker, which is its libc, and one program of it."""
    tree = tmp_path_factory.mktemp("musl")
    for name in "bin", "dev", "etc", "lib", "proc", "run", "sys", "tmp":
        (tree / name).mkdir()
    linker = f"ld-musl-{os.uname().machine}.so.1"
    shutil.copy(pathlib.Path("/lib", linker), tree / "lib" / linker)
    run("musl-gcc", "-idirafter", "/usr/include", "-idirafter", f"/usr/include/{os.uname().machine}-linux-gnu",
        "-o", tree / "bin" / "shown", ROOT / "tests/tools/shown.c")
    return tree


def test_musl_with_the_device(installed, musl):
    """The mounts do it no harm; musl reads no /etc/ld.so.preload, and the program sees no device."""
    said = run(*arguments(musl, "--rm", "--network", "none", *DEVICE), "/bin/shown")
    assert "open No such file or directory" in said and "out of the tree No such file or directory" in said


def test_musl_under_show_seccomp(musl):
    """simhca run starts podman, and answers the system calls of what podman starts: with nothing in the image."""
    said = run(SIMHCA, "run", "--private", "--show", "seccomp", "--",
               *arguments(musl, "--rm", "--network", "none"), "/bin/shown")
    for line in "entry simhca0", "open ok", "fstat device", "gids 2", "relative ok", "netlink ok":
        assert f"{line}\n" in said, said


def carried(directory):
    status = json.loads(run(SIMHCA, "status", "--json", "--runtime-dir", directory))
    return sum(device["counts"]["carried"] for device in status["devices"])


def pingpongs(first, second):
    """Two that go on, the commands that start them begin with first and second."""
    program = ["ibv_rc_pingpong", "-g", "0", "-n", "100000000"]
    return [[*first, *program], [*second, "sh", "-c", f"until {' '.join(program)} localhost; do sleep 0.2; done"]]


@pytest.mark.parametrize("shared", [False, True], ids=["one container", "two with one pid namespace"])
def test_fast_path(installed, shared):
    """Programs that see each other's process carry messages themselves, though the daemon is outside."""
    with container(HOST, "--network", "none", *DEVICE) as name:
        inside = [*PODMAN, "exec", name]
        second = inside
        if shared:
            second = arguments(HOST, "--rm", "--name", f"{name}-2", "--network", f"container:{name}",
                               "--pid", f"container:{name}", *DEVICE)
        running = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                   for command in pingpongs(inside, second)]
        try:
            wait_for(lambda: carried(installed) == 2, "both carry messages")
        finally:
            if shared:  # or else the first one could not be removed
                run(*PODMAN, "rm", "--force", "--time", "0", f"{name}-2")
            run(*PODMAN, "exec", name, "pkill", "ibv_rc_pingpong", check=False)
            for process in running:
                process.kill()
                process.wait()
    wait_for(lambda: not contexts(installed), "both have gone")
