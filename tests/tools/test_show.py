# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""simhca run --show: programs that LD_PRELOAD does not reach see the device, by the real daemon."""

import contextlib
import os
import pathlib
import pwd
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import urllib.request

import pytest

from common import BUILD, wait_until

HERE = pathlib.Path(__file__).resolve().parent
SIMHCA = BUILD / "bin" / "simhca"
LISTED = ["entry simhca0", "link ../../devices/simhca/simhca0/infiniband/simhca0", "access ok",
          "no such No such file or directory", "open ok", "fstat device", "stat device", "gids 2",
          "relative ok", "out of the tree No such file or directory",
          "netlink ok"]
GO = r"""
package main

import (
	"fmt"
	"os"
	"strings"
)

%s
func main() {
	entries, err := os.ReadDir("/sys/class/infiniband")
	for _, entry := range entries {
		fmt.Println(entry.Name())
	}
	guid, err2 := os.ReadFile("/sys/class/infiniband/simhca0/node_guid")
	fmt.Println(len(strings.TrimSpace(string(guid))), err, err2)
	file, err := os.OpenFile("/dev/infiniband/uverbs0", os.O_RDWR, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	info, err := file.Stat()
	fmt.Println(info.Mode()&os.ModeCharDevice != 0, err)
}
"""


def environment(**more):
    kept = {name: value for name, value in os.environ.items()
            if name == "SIMHCA_PRELOAD_FIRST" or
            not name.startswith(("SIMHCA_", "IBV_", "RDMAV_")) and name != "LD_PRELOAD"}
    return kept | more


def run(*arguments, show="auto", options=(), prefix=(), **more):
    return subprocess.run([*prefix, SIMHCA, "run", "--private", "--show", show, *options, "--",
                           *map(str, arguments)], env=environment(**more), text=True,
                          capture_output=True, stdin=subprocess.DEVNULL, timeout=60, check=False)


@pytest.fixture(scope="module")
def directory():
    """Where nobody can run programs as well."""
    with tempfile.TemporaryDirectory(prefix="simhca-show-") as name:
        path = pathlib.Path(name)
        path.chmod(0o755)
        yield path


@pytest.fixture(scope="module")
def static(directory):
    program = directory / "static"
    subprocess.run(["gcc", "-static", "-Wall", "-o", program, HERE / "shown.c"], check=True)
    return program


@pytest.fixture(scope="module")
def musl(directory):
    program = directory / "musl"
    subprocess.run(["musl-gcc", "-idirafter", "/usr/include", "-idirafter",
                    f"/usr/include/{os.uname().machine}-linux-gnu", "-o", program,
                    HERE / "shown.c"], check=True)
    return program


def build_go(directory, name, preamble, cgo):
    source = directory / f"{name}.go"
    source.write_text(GO % preamble)
    environ = environment(CGO_ENABLED=cgo, GOCACHE=str(directory / "gocache"), GO111MODULE="off",
                          HOME=str(directory))
    subprocess.run(["go", "build", "-o", directory / name, source], env=environ, check=True)
    return directory / name


@pytest.fixture(scope="module")
def go(directory):
    return build_go(directory, "go0", "", "0")


SEEN = {"static": LISTED, "musl": LISTED, "go": ["simhca0", "19 <nil> <nil>", "true <nil>"]}


@pytest.fixture(params=SEEN)
def program_and_output(request):
    """What has neither glibc's dynamic linker nor our libraries, and what it prints where it sees the device."""
    return request.getfixturevalue(request.param), SEEN[request.param]


def test_static(static):
    result = run(static)
    assert (result.stdout.splitlines(), result.stderr) == (LISTED, "")


def test_musl(musl):
    result = run(musl)
    assert (result.stdout.splitlines(), result.stderr) == (LISTED, "")


@pytest.mark.parametrize("preamble, cgo", [("", "0"), ('// #include <errno.h>\nimport "C"\n\nvar _ = C.EIO\n', "1")],
                         ids=["without cgo", "with cgo"])
def test_go(directory, preamble, cgo):
    result = run(build_go(directory, f"go{cgo}", preamble, cgo))
    assert (result.stdout, result.stderr) == ("simhca0\n19 <nil> <nil>\ntrue <nil>\n", "")


@pytest.mark.parametrize("options, names", [
    (["--link-layer", "ib"], "simhca0 [/dev/infiniband/umad0 /dev/infiniband/uverbs0 /dev/infiniband/rdma_cm]"),
    (["--profile", "connectx-7"], "mlx5_0 [/dev/infiniband/uverbs0 /dev/infiniband/rdma_cm]")],
    ids=["InfiniBand", "ConnectX-7"])
def test_names_that_device_plugins_ask_for(directory, options, names):
    """Directories are listed and each entry looked at, links told from directories: as Mellanox/rdmamap does."""
    program = directory / "rdma_names"
    environ = environment(CGO_ENABLED="0", GOCACHE=str(directory / "gocache"), GO111MODULE="off", HOME=str(directory))
    subprocess.run(["go", "build", "-o", program, HERE / "rdma_names.go"], env=environ, check=True)
    result = run(program, "lo", "5343:00:00.0", options=options)
    pci = "mlx5_0" if "mlx5" in names else ""
    netdev = "true" if "mlx5" in names else "false"  # no Ethernet interface is InfiniBand's
    assert result.stdout == f"{names} {netdev} false 19 true\n5343:00:00.0 [{pci}]\n"
    assert result.stderr == f"simhca run: {program} looked for RDMA devices, and nobody opened one\n"


def test_cleared_environment(static):
    """A dynamic program starts what then has neither LD_PRELOAD nor our variables."""
    result = run("env", "-i", static, show="seccomp")
    assert (result.stdout.splitlines(), result.stderr) == (LISTED, "")


@pytest.mark.parametrize("what", ["threads", "signals"])
def test_many_calls(static, what):
    result = run(static, what)
    assert (result.returncode, result.stdout, result.stderr) == (0, "ok\n", "")


def test_fork_and_exec(static):
    assert run(static, "fork").stdout.splitlines() == LISTED


def test_other_ways_to_start(static):
    """vfork() and posix_spawn(), and a session without an environment."""
    assert run(static, "others").stdout == "device\n" * 3


def test_directories(static):
    """Names relative to directories of the host and of the tree, by O_PATH and openat2() as well."""
    assert run(static, "directories").stdout.splitlines() == [
        "openat2 ok", "from / ok", "read 6", "readlinkat 47", "faccessat ok", "fstatat ok",
        "not there No such file or directory", "node ok", "chdir ok", "below it ok"]


def test_copies(static):
    """dup() and fcntl() of a device make a device; of files they are the kernel's."""
    assert run(static, "copies").stdout.splitlines() == [
        "dup device", "not inherited 1", "inherited 0", "F_DUPFD_CLOEXEC device 1", "gids of dup3 2", "of a file 1"]


@pytest.mark.parametrize("program", ["static", "musl"])
def test_netlink(request, program):
    """The socket is bound, asked and read as a kernel's."""
    assert run(request.getfixturevalue(program), "netlink").stdout.splitlines() == [
        "option ok", "no option Protocol not available", "bind ok", "bound to the process",
        "nothing yet Resource temporarily unavailable", "sent 16", "looked ok", "received ok", "from 0 of 12",
        "the same 1", "end 20", "done 1", "Interrupted system call"]


def test_lies(static):
    """Addresses and lengths that are wrong: what the kernel would say, and the next call is answered."""
    assert run(static, "lies", options=["--link-layer", "ib"]).stdout.splitlines() == [
        "bind Bad address", "short Invalid argument", "getsockname Invalid argument", "send ok", "recvmsg Bad address",
        "parts Bad address", "many Message too long", "recvfrom Bad address", "still there 1", "umad ioctl Bad address",
        "umad write Bad address", "umad long Message too long", "umad read Resource temporarily unavailable",
        "uverbs ioctl Bad address", "other ioctl Inappropriate ioctl for device", "rdma_cm write Bad address",
        "open Bad address", "afterwards ok"]


def test_rdma_without_preload():
    """
    iproute2's rdma asks by netlink alone: it opens no device, and simhca run prints nothing about that. Debian 13's names
    the protocol.
    """
    result = run("sh", "-c", "rdma dev && rdma link && rdma resource", show="seccomp", options=["--link-layer", "ib"])
    assert re.search(r"simhca0: node_type ca (?:protocol ib )?fw .*\nlink simhca0/1 .* state ACTIVE .*\n0: simhca0: pd 0 ", result.stdout)
    assert (result.returncode, result.stderr) == (0, "")


def test_wait_for_an_event(static):
    """A signal ends it, and a descriptor that does not block does not wait."""
    assert run(static, "event").stdout == "Interrupted system call\nResource temporarily unavailable\n"


def test_clients_without_preload():
    """rping: libibverbs, librdmacm and the provider, whose calls are answered by nobody else."""
    script = ("case $LD_PRELOAD in *libsimhca-preload*) exit 1 ;; esac; rping -s -a 127.0.0.1 >/dev/null 2>&1 & sleep 1;"
              "rping -v -c -a 127.0.0.1 -C 3 2>&1 | grep 'ping data'; kill $! 2>/dev/null; true")
    assert run("sh", "-c", script, show="seccomp").stdout.count("ping data: rdma-ping-") == 3


def test_files_beside_the_tree():
    result = run("sh", "-c", "ls -la /sys/class/infiniband/ /dev/infiniband && ls /sys/class/infiniband/..",
                 show="seccomp")
    assert (result.returncode, result.stderr.count("\n")) == (0, 1)
    assert re.search(r"^crw-rw-rw- .* uverbs0$", result.stdout, re.M) and "net\n" in result.stdout


@pytest.fixture
def as_nobody():
    """run() as a user with a directory in /tmp and nothing else."""
    if os.geteuid():
        pytest.skip("only root can become nobody")
    nobody = pwd.getpwnam("nobody")
    prefix = ["setpriv", f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups"]

    def run_as_nobody(*arguments, **options):
        return run(*arguments, prefix=prefix, HOME="/nonexistent", TMPDIR="/tmp", XDG_RUNTIME_DIR="", **options)

    return run_as_nobody


def test_nobody(program_and_output, as_nobody):
    program, output = program_and_output
    result = as_nobody(program)
    assert (result.stdout.splitlines(), result.stderr) == (output, "")


def test_another_user_is_not_served(static):
    """Root's device is not nobody's, to whom root's supervisor lends no rights."""
    if os.geteuid():
        pytest.skip("only root can become nobody")
    result = run("setpriv", "--reuid=nobody", "--clear-groups", static, show="seccomp")
    assert "open No such file or directory" in result.stdout and "entry" not in result.stdout


def test_bubblewrap(program_and_output):
    """Its mounts have no simhca; and the supervisor opens nothing else for it."""
    program, output = program_and_output
    libc = [word for file in pathlib.Path("/lib").glob("ld-musl-*") for word in ("--ro-bind", file, file)]
    sandbox = ["bwrap", "--ro-bind", program, "/program", *libc, "--dev", "/dev", "--proc", "/proc",
               "--unshare-pid", "/program"]
    result = run(*sandbox, show="seccomp")
    assert result.stdout.splitlines() == output, result.stderr


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="x86's numbers of system calls")
def test_profile_of_docker(static, directory):
    """In docker's default profile one call is missing, which is said: programs see files, and cannot use the device."""
    allow, refuse, pidfd_getfd = 0x7fff0000, 0x00050001, 438
    filter_of = directory / "filter"
    filter_of.write_bytes(b"".join(struct.pack("<HBBI", *line) for line in (
        (0x20, 0, 0, 0), (0x15, 0, 1, pidfd_getfd), (0x06, 0, 0, refuse), (0x06, 0, 0, allow))))
    prefix = ["sh", "-c", f'exec bwrap --dev-bind / / --seccomp 3 "$@" 3<{filter_of}', "sh"]
    result = run(static, prefix=prefix)
    assert "entry simhca0" in result.stdout and "gids -1" in result.stdout
    assert result.stderr.startswith("simhca run: --show seccomp: pidfd_getfd: Operation not permitted: the device's files ")
    assert "docker run --cap-add SYS_PTRACE" in result.stderr


def test_second_listener(static):
    """The kernel lets one supervisor answer, not one inside another."""
    result = run(SIMHCA, "run", "--private", "--show", "seccomp", "--", static, show="seccomp")
    assert result.returncode == 125
    assert "only one can" in result.stderr and "--show preload" in result.stderr


def test_supervisor_is_killed(static):
    """Its calls fail then, and do not hang."""
    process = subprocess.Popen([SIMHCA, "run", "--private", "--show", "seccomp", "--", static, "requests"],
                               env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ok\n"
    process.kill()
    process.wait()
    process.stdin.write("again\n")
    process.stdin.flush()
    assert process.stdout.readline() == "Function not implemented\n"
    process.stdin.close()
    assert process.stdout.read() == ""


def test_left_behind(static, directory):
    """What the command leaves running is answered after simhca run has ended, and nobody stays after it."""
    pipe, out = directory / "pipe", directory / "out"
    os.mkfifo(pipe)
    with open(out, "wb") as file:
        command = [SIMHCA, "run", "--private", "--show", "seccomp", "--", "sh", "-c",
                   f"{static} requests <{pipe} & echo $!"]
        writer = os.open(pipe, os.O_RDWR)
        subprocess.run(command, env=environment(), stdout=file, timeout=60, check=True)
    wait_until(lambda: out.read_text().count("\n") >= 2, 10, "both have said something")
    os.write(writer, b"again\n")
    wait_until(lambda: out.read_text().count("ok\n") == 2, 10, "both have said ok")
    pid = int(re.search(r"^\d+$", out.read_text(), re.M)[0])
    os.kill(pid, signal.SIGKILL)
    os.close(writer)
    wait_until(lambda: not [name for name in pathlib.Path("/proc").glob("[0-9]*/cmdline")
                            if str(static).encode() in read_quietly(name)], 10, "nobody stays")


def read_quietly(path):
    with contextlib.suppress(OSError):
        return path.read_bytes()
    return b""


def test_nobody_opened_the_device():
    result = run("cat", "/sys/class/infiniband/simhca0/node_guid", show="seccomp")
    assert result.returncode == 0
    assert result.stderr == "simhca run: cat looked for RDMA devices, and nobody opened one\n"
    assert run("true", show="seccomp").stderr == ""
    assert run("cat", "/sys/class/infiniband/simhca0/node_guid", show="seccomp", SIMHCA_EXPLAIN="0").stderr == ""


def test_preload_says_whom_it_does_not_reach(static):
    result = run(static, show="preload")
    assert "open No such file or directory" in result.stdout
    assert result.stderr == (f"simhca run: {static}: LD_PRELOAD does not show it the device, as it is static; "
                             "--show seccomp does\n")


def test_auto_supervises_nobody_else():
    result = run("grep", "^Seccomp:", "/proc/self/status")
    assert result.stdout.split()[1] == pathlib.Path("/proc/self/status").read_text().split("\nSeccomp:")[1].split()[0]


def test_rights_are_not_taken(static, directory):
    """A set-user-ID program keeps its rights; --show seccomp has it run as the user, who sees the device."""
    if os.geteuid():
        pytest.skip("only root can make a program nobody's")
    program = directory / "set-user-ID"
    shutil.copy(static, program)
    os.chown(program, pwd.getpwnam("nobody").pw_uid, -1)
    program.chmod(0o4755)
    result = run(program)
    assert "open No such file or directory" in result.stdout
    assert "as it is set-user-ID; --show seccomp does" in result.stderr


def test_set_user_id(static, directory, as_nobody):
    """With --show seccomp it runs as the user, as system calls of others are not answered."""
    program = directory / "root's"
    shutil.copy(static, program)
    program.chmod(0o4755)
    result = as_nobody(program, show="seccomp")
    assert (result.stdout.splitlines(), result.stderr) == (LISTED, "")


def elf32(code):
    """A program of 32 bits that is nothing but a header and code."""
    at, header = 0x08048000, struct.Struct("<16sHHIIIIIHHHHHH")
    size = header.size + 32 + len(code)
    return (header.pack(b"\x7fELF\x01\x01\x01", 2, 3, 1, at + header.size + 32, header.size, 0, 0, header.size, 32, 1, 0, 0, 0) +
            struct.pack("<8I", 1, 0, at, at, size, size, 5, 4096) + code)


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="x86 code")
@pytest.mark.parametrize("show", ["auto", "preload", "seccomp"])
def test_32_bits(directory, show):
    """Neither way reaches it, which is said."""
    program = directory / "of32bits"
    program.write_bytes(elf32(b"\xb8\x01\0\0\0\x31\xdb\xcd\x80"))  # exit(0)
    program.chmod(0o755)
    try:
        subprocess.run([program], check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this kernel runs no 32-bit programs")
    result = run(program, show=show)
    assert result.returncode == 0
    assert result.stderr == f"simhca run: {program}: nothing shows it the device, as it is a 32-bit program\n"


def test_unknown_way():
    result = run("true", show="magic")
    assert result.returncode == 125
    assert result.stderr == "simhca run: --show magic: must be auto, preload or seccomp\n"


def test_node_exporter():
    """Prometheus' node_exporter, in Go: its InfiniBand collector counts the device's port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = "127.0.0.1:%d" % probe.getsockname()[1]
    process = subprocess.Popen([SIMHCA, "run", "--private", "--", "prometheus-node-exporter",
                                "--collector.disable-defaults", "--collector.infiniband",
                                f"--web.listen-address={address}"], env=environment(), stderr=subprocess.DEVNULL)
    try:
        metrics = ""
        end = time.monotonic() + 30
        while "node_infiniband_info" not in metrics and time.monotonic() < end:
            time.sleep(0.2)
            with contextlib.suppress(OSError), urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as page:
                metrics = page.read().decode()
        assert 'node_infiniband_info{board_id=' in metrics and 'device="simhca0"' in metrics
        assert re.search(r'node_infiniband_port_data_received_bytes_total\{device="simhca0",port="1"\} \d', metrics)
        assert 'node_scrape_collector_success{collector="infiniband"} 1' in metrics
    finally:
        process.terminate()
        process.wait()
