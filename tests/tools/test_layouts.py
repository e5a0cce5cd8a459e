# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""scripts/check-layouts: a layout that changes without its version is found, and nothing else is."""

import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FRAME, CONTROL = "common/trace_frame.h", "common/control_protocol.h"
RECORD = "tests/abi/layouts"
WRITERS, DEVICE = "kernel-abi/simhca-abi-writers.h", "kernel-abi/simhca-abi.h"


class Repository:
    def __init__(self, path):
        self.path = path
        for name in ("kernel-abi", "common", "tests/abi", "scripts"):
            shutil.copytree(ROOT / name, path / name)
        self.git("init", "-q")
        self.commit()

    def git(self, *arguments):
        subprocess.run(["git", "-C", self.path, "-c", "user.name=x", "-c", "user.email=x@example.org", *arguments],
                       check=True, stdout=subprocess.DEVNULL)

    def commit(self):
        self.git("add", ".")
        self.git("commit", "-q", "-m", "x")

    def change(self, name, before, after):
        text = (self.path / name).read_text()
        assert re.search(before, text)
        (self.path / name).write_text(re.sub(before, after, text, count=1))

    def raise_version(self, name):
        self.change(name, r"(_VERSION) (\d+)", lambda found: f"{found[1]} {int(found[2]) + 1}")

    def check(self):
        """What it says; empty: all is well."""
        done = subprocess.run([self.path / "scripts/check-layouts"], capture_output=True, text=True, check=False)
        assert (done.returncode == 0) == (done.stderr == "")
        return done.stderr


@pytest.fixture
def repository(tmp_path):
    made = Repository(tmp_path / "r")
    assert made.check() == ""
    return made


@pytest.mark.parametrize("name, before, after", [
    (FRAME, r"char comm\[16\]", "char comm[32]"),
    (FRAME, r"uint32_t qpn, peer_qpn", "uint32_t peer_qpn, qpn"),
    (WRITERS, r"(?<=_Atomic uint32_t )at_work", "count"),
    (DEVICE, r"SIMHCA_MAX_TAGS = 4096", "SIMHCA_MAX_TAGS = 8192"),
], ids=["longer", "order", "name", "limit"])
def test_a_change_without_its_version(repository, name, before, after):
    repository.change(name, before, after)
    assert "raise it" in repository.check()
    repository.raise_version(CONTROL if name == FRAME else DEVICE)
    line = re.search(r"the last line is to be '(.+)'", repository.check())[1]
    with (repository.path / RECORD).open("a") as record:
        record.write(line + "\n")
    assert repository.check() == ""


def test_what_is_recorded_stays(repository):
    """What an older version was like is not written anew, to be rid of the complaint."""
    repository.change(FRAME, r"char comm\[16\]", "char comm[32]")
    repository.raise_version(CONTROL)
    now = re.search(r"the last line is to be 'control \d+ (\w+)'", repository.check())[1]
    repository.git("checkout", "-q", CONTROL)
    repository.change(RECORD, r"(?m)^(control \d+) \w+$", rf"\1 {now}")
    assert "was changed or removed" in repository.check()
    repository.commit()
    assert "was changed or removed" in repository.check()


@pytest.mark.parametrize("name, before, after", [
    (FRAME, r"the program's name", "that of the program"),
    (DEVICE, r"(?m)^SIMHCA_ABI_SIZE\(struct simhca_qpc, [^)]*\);$", ""),
    ("kernel-abi/simhca-abi-fastpath.h", r"if \(ns >> SIMHCA_LATENCY_FIRST_SHIFT == 0\)", "if (!ns)"),
    ("kernel-abi/simhca-abi-reason.h", r"the device is gone", "the device has gone"),
], ids=["comment", "assertion", "function", "reason"])
def test_no_other_layout(repository, name, before, after):
    repository.change(name, before, after)
    assert repository.check() == ""
