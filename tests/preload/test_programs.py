# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Unmodified programs see the device where they would see a real one."""
import os
import pathlib
import platform
import shutil
import subprocess
import sys

import pytest

from fakes import clean_environment, fake_daemon, need, program

GUID = "0200:00ff:fe00:0001\n"
DEVICE = "/sys/class/infiniband/rxe0"
NODE = "/dev/infiniband/uverbs0"


@pytest.fixture
def run(preloaded):
    def run(*argv, **env):
        return subprocess.run(argv, env=preloaded | env, capture_output=True, text=True,
                              timeout=60, stdin=subprocess.DEVNULL, check=False)
    return run


def output(result):
    assert result.stderr == ""
    assert result.returncode == 0
    return result.stdout


def test_libibverbs_loaded_at_run_time(run):
    result = run(program("dlopen-client"))
    if result.returncode == 77:
        pytest.skip("no libibverbs here: " + result.stderr)
    assert output(result) == "rxe0 020000fffe000001\n"


def test_module_that_is_bound_deeply(run):
    """Its libibverbs, too, comes to the hooks; and it is found where its program's own RUNPATH says."""
    assert output(run(program("deepbind-client"))) == "1\n"


@pytest.mark.skipif(not shutil.which("ibv_devices"), reason="no ibv_devices here")
def test_ibv_devices(run):
    assert "rxe0" in output(run("ibv_devices"))


def test_libibverbs_past_the_provider(run):
    """What libibverbs asks of the kernel by itself, with a provider that does nothing."""
    with fake_daemon("boundary0") as directory:
        assert output(run(program("boundary-client"), SIMHCA_RUNTIME_DIR=str(directory),
                          RDMAV_DRIVERS=program("boundary"))) == "ok\n"


def test_cat(run):
    assert output(run("cat", DEVICE + "/node_guid")) == GUID
    assert output(run("cat", "//sys/class/./infiniband/rxe0/node_guid")) == GUID


def test_cat_missing(run):
    result = run("cat", DEVICE + "/nothing")
    assert result.returncode == 1
    assert result.stderr == f"cat: {DEVICE}/nothing: No such file or directory\n"


def test_ls(run):
    assert output(run("ls", "/sys/class/infiniband")) == "rxe0\n"
    assert output(run("ls", "/dev/infiniband")) == "uverbs0\n"


def test_ls_long(run):
    line = output(run("ls", "-l", NODE)).split()
    assert line[0] == "crw-rw-rw-"
    assert line[4:6] == ["231,", "192"]
    (_, line) = output(run("ls", "-l", "/dev/infiniband")).splitlines()
    assert line.startswith("crw-rw-rw-") and line.endswith(" uverbs0")


def test_ls_of_two_classes(run):
    listed = output(run("ls", "-d", "/sys/class/infiniband", "/sys/class/infiniband_verbs",
                        "/sys/class/misc/rdma_cm"))
    assert len(listed.splitlines()) == 3


def test_stat(run):
    assert output(run("stat", "-c", "%F %t:%T %a", NODE)) == "character special file e7:c0 666\n"
    assert output(run("stat", "-c", "%F", "/sys/class/infiniband")) == "directory\n"


@pytest.mark.parametrize("test", ["-c", "-e", "-r", "-w"])
@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_shell_test(run, shell, test):
    output(run(shell, "-c", f"[ {test} {NODE} ]"))


def test_shell_glob(run):
    assert output(run("sh", "-c", "echo /sys/class/infiniband/*/node_guid /dev/infiniband/*")) == \
        f"{DEVICE}/node_guid {NODE}\n"


def test_shell_cd(run):
    assert output(run("bash", "-c", "cd /sys/class/infiniband && pwd && cat */node_guid")) == \
        "/sys/class/infiniband\n" + GUID


def test_find(run):
    assert sorted(output(run("find", "/sys/class/infiniband", "-name", "node_*", "-type", "f")
                         ).split()) == [DEVICE + "/node_guid", DEVICE + "/node_type"]
    assert output(run("find", "/dev/infiniband", "-type", "c")) == NODE + "\n"
    assert output(run("find", "/dev/infiniband", "-type", "s")) == ""
    assert output(run("find", "/dev/infiniband", "-perm", "666", "-type", "c")) == NODE + "\n"


def test_realpath_and_readlink(run):
    assert output(run("readlink", DEVICE + "/subsystem")) == "../../infiniband\n"
    assert output(run("python3", "-c", f"import os; print(os.readlink('{DEVICE}/subsystem'))")) \
        == "../../infiniband\n"


def test_grep_recursive(run):
    assert f"{DEVICE}/node_guid:{GUID}" in output(run("grep", "-r", "ff:fe00", DEVICE))


PYTHON = """
import ctypes, os, stat, pathlib
node, device = "/dev/infiniband/uverbs0", "/sys/class/infiniband/rxe0"
assert os.listdir("/sys/class/infiniband") == ["rxe0"]
assert os.path.exists(node) and os.path.isdir(device) and not os.path.exists(device + "x")
for st in os.stat(node), os.lstat(node), os.stat("uverbs0", dir_fd=os.open("/dev/infiniband", 0)):
    assert stat.S_ISCHR(st.st_mode) and st.st_rdev == os.makedev(231, 192), st
assert os.access(node, os.R_OK | os.W_OK)
assert pathlib.Path(device, "node_guid").read_text() == "0200:00ff:fe00:0001\\n"
assert [e.name for e in os.scandir("/dev/infiniband")] == ["uverbs0"]
assert "rxe0" in next(os.walk("/sys/class/infiniband"))[1]
fd = os.open(node, os.O_RDWR)
assert os.fstat(fd).st_rdev == os.stat(node).st_rdev and os.fstat(fd).st_ino == os.stat(node).st_ino
assert os.path.samestat(os.fstat(os.dup(fd)), os.stat(node))
os.chdir("/sys/class/infiniband")
assert open("rxe0/node_guid").read() == "0200:00ff:fe00:0001\\n"
libc = ctypes.CDLL(None)
libc.realpath.restype = ctypes.c_char_p
for name in b"/sys/class/infiniband/rxe0/subsystem/rxe0", b"rxe0", b"/sys/class/infiniband/./rxe0":
    assert libc.realpath(name, ctypes.create_string_buffer(4096)) == device.encode(), name
assert libc.realpath(b"/usr/../usr", ctypes.create_string_buffer(4096)) == b"/usr"
"""


def test_python(run):
    assert output(run(sys.executable, "-c", PYTHON)) == ""


def test_old_stat_symbols(run):
    """The names under which binaries linked before glibc 2.33 know the stat family."""
    script = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
st = ctypes.create_string_buffer(256)
mode = lambda: int.from_bytes(st.raw[24:28], "little")
node = b"/dev/infiniband/uverbs0"
fd = os.open(node, os.O_RDWR)
for name in "__xstat", "__xstat64", "__lxstat", "__lxstat64":
    assert libc[name](1, node, st) == 0 and mode() == 0o20666, name
    assert libc[name](1, b"/dev/null", st) == 0 and mode() == 0o20666, name
    assert libc[name](1, b"/nothing", st) == -1 and ctypes.get_errno() == 2, name
for name in "__fxstat", "__fxstat64":
    assert libc[name](1, fd, st) == 0 and mode() == 0o20666, name
for name in "__fxstatat", "__fxstatat64":
    assert libc[name](1, -100, node, st, 0) == 0 and mode() == 0o20666, name
"""
    if platform.machine() != "x86_64":
        pytest.skip("knows the layout of struct stat on x86-64 only")
    assert output(run(sys.executable, "-c", script)) == ""


def test_device_without_daemon(run, tmp_path):
    (tmp_path / "tree/dev/infiniband").mkdir(parents=True)
    result = run("cat", NODE, SIMHCA_RUNTIME_DIR=str(tmp_path))
    assert result.returncode == 1
    assert result.stderr == f"cat: {NODE}: No such file or directory\n"


def test_no_tree_passes_through(run):
    """Without a daemon the host's own view, whatever it is."""
    script = "ls /sys/class/infiniband /dev/infiniband"
    bare = subprocess.run(["sh", "-c", script], env=clean_environment(), capture_output=True,
                          text=True, check=False)
    result = run("sh", "-c", script, SIMHCA_RUNTIME_DIR="/nowhere")
    assert (result.returncode, result.stdout, result.stderr) == \
        (bare.returncode, bare.stdout, bare.stderr)


RDMA_SOCKET = """
import os, socket
try:
    print(os.readlink(f"/proc/self/fd/{socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 20).detach()}"))
except OSError as error:
    print(error.strerror)
"""


def test_host_with_rdma_devices(run):
    """
    With a tree its devices are not shown, not even when no daemon answers for ours: RDMA netlink is
    the tree's, as /sys is. Without a tree they are.
    """
    libraries = f"{need('SIMHCA_PRELOAD')}:{program('host-netlink')}.so"
    assert output(run(sys.executable, "-c", RDMA_SOCKET, LD_PRELOAD=libraries)) == \
        "Protocol not supported\n"
    assert output(run(sys.executable, "-c", RDMA_SOCKET, LD_PRELOAD=libraries,
                      SIMHCA_RUNTIME_DIR="/nowhere")) == "/dev/zero\n"


def test_xdg_runtime_dir(run, runtime_dir, tmp_path):
    (tmp_path / "simhca").symlink_to(runtime_dir)
    assert output(run("ls", "-l", NODE, SIMHCA_RUNTIME_DIR="", XDG_RUNTIME_DIR=str(tmp_path))
                  ).startswith("crw-rw-rw-")
    # A symbolic link on the way to the tree does not show either.
    assert output(run(sys.executable, "-c",
                      f"import ctypes; f = ctypes.CDLL(None).realpath; "
                      f"f.restype = ctypes.c_char_p; "
                      f"print(f(b'{DEVICE}', ctypes.create_string_buffer(4096)))",
                      SIMHCA_RUNTIME_DIR="", XDG_RUNTIME_DIR=str(tmp_path))) == f"b'{DEVICE}'\n"


def test_address_sanitizer(run):
    if not os.path.exists(program("asan-client")):
        pytest.skip("the compiler has no AddressSanitizer")
    assert output(run(program("asan-client"))) == "ok\n"


@pytest.fixture
def in_tmp(runtime_dir):
    """The place in /tmp that daemons of this user have where there is no better one."""
    place = pathlib.Path(f"/tmp/simhca-{os.geteuid()}")
    if place.exists():
        pytest.skip(f"{place} is in use")
    place.mkdir(0o700)
    try:
        (place / "tree").symlink_to(runtime_dir / "tree")
        yield place
    finally:
        shutil.rmtree(place)


def sees_device(run):
    done = run("cat", "/sys/class/infiniband_verbs/uverbs0/ibdev", SIMHCA_RUNTIME_DIR="",
               XDG_RUNTIME_DIR="")
    return done.returncode == 0


def test_own_directory_in_tmp(run, in_tmp):
    if os.path.exists("/run/simhca/tree"):
        pytest.skip("a daemon serves /run/simhca")
    assert sees_device(run)


def test_directory_in_tmp_of_a_stranger(run, in_tmp):
    if os.geteuid() != 0:
        pytest.skip("only root can give a directory away")
    if os.path.exists("/run/simhca/tree"):
        pytest.skip("a daemon serves /run/simhca")
    os.chown(in_tmp, 65534, 65534)
    assert not sees_device(run)


def test_program_of_another_libc(run, tmp_path):
    """It runs as if we were not there: musl has neither our libc's versions nor its extras."""
    if not shutil.which("musl-gcc"):
        pytest.skip("no musl-gcc here: musl-tools is not installed")
    source = pathlib.Path(__file__).with_name("musl_client.c")
    subprocess.run(["musl-gcc", "-Wall", "-Werror", "-o", tmp_path / "client", source], check=True)
    assert output(run(tmp_path / "client")) == "no device\n"


def test_exports_only_hooks():
    if not shutil.which("nm"):
        pytest.skip("no nm here")
    symbols = subprocess.run(["nm", "-D", "--defined-only", "--format=posix",
                              need("SIMHCA_PRELOAD")],
                             capture_output=True, text=True, check=True).stdout
    names = {line.split()[0] for line in symbols.splitlines()}
    assert "open" in names and "ioctl" in names
    assert not {name for name in names if name.startswith(("simhca", "real_", "paths_", "device_",
                                                           "daemon_", "netlink_", "hook_",
                                                           "request_"))}
    needed = subprocess.run(["readelf", "-d", need("SIMHCA_PRELOAD")],
                            capture_output=True, text=True, check=True).stdout
    assert {line.split("[")[1].rstrip("]") for line in needed.splitlines() if "(NEEDED)" in line} \
        <= {"libc.so.6", "libdl.so.2"}
