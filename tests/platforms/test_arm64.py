# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
arm64: cross-built against Debian's libraries, without warnings; the device model's tests under
qemu-user.
"""
import os
import pathlib
import re
import subprocess

import pytest

from conftest import LOGS, ROOT, Tree

# What fails in qemu-user, by what it does not have.
CANNOT = {
    "test_file_mr": "maps files of the emulated process by numbers that are the emulator's",
    "test_odp": "userfaultfd",
    "test_odp_leave": "userfaultfd",
    "test_odp_life": "userfaultfd",
    "test_odp_midway": "userfaultfd",
    "test_odp_turns": "userfaultfd",
    "test_odp_xrc": "userfaultfd",
}


@pytest.fixture(scope="module")
def sysroot():
    tree = Tree("bookworm:arm64", "build", "demo")
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
                 f"-DCMAKE_TOOLCHAIN_FILE={ROOT}/cmake/arm64.cmake"],
                ["cmake", "--build", directory]):
            done = subprocess.run(command, env=env, stdout=log, stderr=subprocess.STDOUT,
                                  check=False)
            assert done.returncode == 0, pathlib.Path(log.name).read_text()[-3000:]
    return directory


def test_is_for_arm64(build):
    for name in "bin/simhcad", "bin/simhca", "lib/libsimhca.so", "lib/libsimhca-preload.so":
        header = (build / name).read_bytes()[:20]
        assert header[:4] == b"\x7fELF" and header[18] == 183, name  # EM_AARCH64


def test_unit(build):
    """The device model and the daemon's parts, but for what the emulator cannot do."""
    done = subprocess.run(
        ["ctest", "--test-dir", build, "-R", "^test_|^daemon_(event_channel|gid_table|options)$",
         "-E", f"^({'|'.join(CANNOT)})$", "-j", "2", "--timeout", "240", "--output-on-failure"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    (LOGS / "arm64-unit.log").write_text(done.stdout)
    assert done.returncode == 0, done.stdout[-5000:]
    passed = re.search(r"100% tests passed, 0 tests failed out of (\d+)", done.stdout)
    assert passed and int(passed[1]) >= 50, done.stdout[-1000:]
