# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
arm64: cross-built against Debian's libraries, without warnings; the device model's tests, and a
connection, under qemu-user.
"""
import contextlib
import os
import pathlib
import platform
import re
import subprocess
import time

import pytest

from listening import is_listened_on, new_port
from trees import LOGS, ROOT, Tree

# All that these do reaches memory by system calls that qemu-user does not have, as
# test_what_the_emulator_lacks() shows, and so over packets (_mtu), too. Others skip what does
# (need_process_vm()).
LACKING = "process_vm_readv", "process_vm_writev"
CANNOT = ("test_fastpath", "test_fastpath_slots", "test_fastpath_ud", "test_file_mr", "test_odp", "test_odp_leave",
          "test_odp_life", "test_odp_midway", "test_odp_turns", "test_odp_xrc", "test_process_memory")
# Engines with two threads go to sleep and are woken by stores that are followed by loads, whose order
# the emulator does not keep, as test_the_order_that_the_emulator_lacks() shows.
ORDER = "test_engine_cpus", "test_threads"
# As many regions as there can be, for each of which the emulator makes up a /proc/self/maps.
DEAR = ("test_limits",)
TIME_LIMIT = 120
SHORT = os.environ.get("SIMHCA_PLATFORMS") == "short" # has no use for what test_unit() runs


@pytest.fixture(scope="module")
def sysroot():
    # Of this release: the cross compiler brings a C library of its own, which is no older there.
    here = platform.freedesktop_os_release().get("VERSION_CODENAME")
    release = here if here in ("bookworm", "trixie") else "sid"
    tree = Tree(f"{release}:arm64", "build", "demo")
    yield tree.path
    tree.remove()


@pytest.fixture(scope="module")
def build(sysroot):
    """A build tree of its own, kept for the next time."""
    directory = ROOT / "build-arm64"
    env = os.environ | {"SIMHCA_SYSROOT": str(sysroot)}
    LOGS.mkdir(parents=True, exist_ok=True)
    with open(LOGS / "arm64-build.log", "w", encoding="utf-8") as log:
        for command in (
                ["cmake", "--fresh", "-S", ROOT, "-B", directory, "-G", "Ninja",
                 "-DCMAKE_BUILD_TYPE=Release", "-DSIMHCA_WERROR=ON",
                 f"-DCMAKE_TOOLCHAIN_FILE={ROOT}/cmake/arm64.cmake",
                 *(["-DBUILD_TESTING=OFF", "-DSIMHCA_TOGETHER=ON", "-DCMAKE_C_FLAGS_RELEASE=-O1 -DNDEBUG"]
                   if SHORT else [])],
                ["cmake", "--build", directory]):
            done = subprocess.run(command, env=env, stdout=log, stderr=subprocess.STDOUT,
                                  check=False)
            assert done.returncode == 0, pathlib.Path(log.name).read_text()[-3000:]
    return directory


def test_is_for_arm64(build):
    for name in "bin/simhcad", "bin/simhca", "lib/libsimhca.so.1", "lib/libsimhca-cq.so.1", "lib/libsimhca-preload.so":
        header = (build / name).read_bytes()[:20]
        assert header[:4] == b"\x7fELF" and header[18] == 183, name  # EM_AARCH64


def test_unit(build):
    """The device model and the daemon's parts, but for what the emulator cannot do."""
    done = subprocess.run(
        ["ctest", "--test-dir", build, "-R", "^test_|^daemon_(event_channel|gid_table|options)$",
         "-E", f"^({'|'.join(CANNOT + ORDER + DEAR)})(_mtu|_wire)?$", "-j", "2", "--timeout", "240",
         "--output-on-failure"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    (LOGS / "arm64-unit.log").write_text(done.stdout)
    assert done.returncode == 0, done.stdout[-5000:]
    passed = re.search(r"100% tests passed, 0 tests failed out of (\d+)", done.stdout)
    assert passed and int(passed[1]) >= 50, done.stdout[-1000:]


def emulator(sysroot, *options):
    return ["qemu-aarch64", "-L", sysroot, *options]


@pytest.mark.parametrize("test", CANNOT)
def test_what_the_emulator_lacks(build, sysroot, test):
    """What CANNOT says is still so; a later qemu that has the calls fails here."""
    with subprocess.Popen(emulator(sysroot, "-strace") + [build / "bin" / test], text=True,
                          errors="replace", stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE) as traced:
        lacks = any(re.search(rf"({'|'.join(LACKING)})\(.* errno=38 ", line)
                    for line in traced.stderr)
        traced.kill()  # one may wait for ever for what it cannot have
    assert lacks


def test_the_order_that_the_emulator_lacks(build, sysroot, tmp_path):
    """What ORDER says is still so: a later qemu that keeps the order fails here."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("two threads have to run at once")
    for compiler, run, lost in ((["cc"], [], False),
                                (["aarch64-linux-gnu-gcc", f"--sysroot={sysroot}"],
                                 emulator(sysroot), True)):
        program = tmp_path / compiler[0]
        subprocess.run([*compiler, "-O2", "-pthread", "-o", program,
                        ROOT / "tests" / "platforms" / "seq_cst.c"], check=True)
        done = subprocess.run([*run, program], stdout=subprocess.PIPE, text=True, check=True,
                              timeout=TIME_LIMIT)
        assert (int(done.stdout) > 0) == lost, compiler


@contextlib.contextmanager
def started(command, log):
    with open(log, "w", encoding="utf-8") as output, \
            subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT,
                             stdin=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(TIME_LIMIT)
            finally:
                process.kill()


def wait_for(what, process):
    end = time.monotonic() + TIME_LIMIT
    while not what():
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.1)


def test_pingpong(build, sysroot, tmp_path):
    """
    The daemon and both programs emulated. Not by `simhca run`, which executes what it is given: only
    a kernel with binfmt_misc knows by what.
    """
    daemon = emulator(sysroot) + [build / "bin" / "simhcad", "--runtime-dir", tmp_path / "run",
                                  "--log-level", "debug"]
    variables = {"LD_PRELOAD": build / "lib" / "libsimhca-preload.so",
                 "IBV_DRIVERS": build / "lib" / "libsimhca", "SIMHCA_RUNTIME_DIR": tmp_path / "run"}
    port = new_port()
    program = emulator(sysroot, *(word for name, value in variables.items()
                                  for word in ("-E", f"{name}={value}")))
    program += [sysroot / "usr/bin/ibv_rc_pingpong", "-g", "0", "-n", "100", "-p", str(port)]
    with started(daemon, tmp_path / "daemon") as device:
        wait_for((tmp_path / "run/tree/dev/infiniband/uverbs0").exists, device)
        with started(program, tmp_path / "server") as server:
            wait_for(lambda: is_listened_on(port), server)
            done = subprocess.run(program + ["localhost"], text=True, timeout=TIME_LIMIT, check=False,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            said = [done.stdout] + [(tmp_path / name).read_text() for name in ("server", "daemon")]
            assert done.returncode == 0 and "100 iters in" in done.stdout, said
            assert server.wait(TIME_LIMIT) == 0, said
    # Without process_vm the memory is reached through the program's own thread.
    assert (tmp_path / "daemon").read_text().count("memory through its agent") == 2
