# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""scripts/install-deps, on a Debian that is made up: what it asks apt for, and what it says."""

import pathlib
import shutil
import subprocess

import pytest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
TOOLS = "bash awk cat dirname env grep mktemp sed touch".split()
PACKAGES = """
build	here	# comment
build	wanted
clients	wanted
clients	sometimes	optional
check	never	optional
"""
APT = """
case "$*" in
*install*)
	echo "$*" >>"$LOG"
	for package in "$@"; do
		case $package in
		absent) echo "E: Unable to locate package $package" >&2; exit 100 ;;
		esac
	done
	;;
esac
"""


class Debian:
    """One where package `here` is installed, and `wanted` and `sometimes` can be."""

    def __init__(self, directory):
        self.bin = directory / "bin"
        self.scripts = directory / "scripts"
        self.log = directory / "log"
        self.bin.mkdir()
        self.scripts.mkdir()
        shutil.copy(SCRIPTS / "install-deps", self.scripts)
        self.has(PACKAGES)
        for tool in TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool))
        self.program("dpkg-query", '[ "$3" != here ] || echo installed')
        self.program("apt-cache", """
            case $2 in
            apt | here | wanted | sometimes) printf '%s:\\n  Candidate: 1.0\\n' "$2" ;;
            esac""")
        self.program("apt-get", APT)
        self.program("id", "echo 0")

    def program(self, name, script):
        (self.bin / name).write_text(f"#!/bin/bash\n{script}\n")
        (self.bin / name).chmod(0o755)

    def has(self, packages):
        (self.scripts / "packages").write_text(packages)

    def install(self, *groups):
        return subprocess.run([self.scripts / "install-deps", *groups], text=True, timeout=60,
                              env={"PATH": str(self.bin), "LOG": str(self.log)},
                              capture_output=True, check=False)

    def asked_for(self):
        """The packages of the last time that apt was to install some."""
        return self.log.read_text().splitlines()[-1].split("--no-install-recommends ")[1].split()


@pytest.fixture
def debian(tmp_path):
    return Debian(tmp_path)


def test_what_is_missing_of_the_groups(debian):
    assert debian.install("build").returncode == 0
    assert debian.asked_for() == ["wanted"]
    assert debian.install("build", "clients").returncode == 0
    assert debian.asked_for() == ["wanted", "sometimes"]


def test_optional_package_that_is_not_there(debian):
    """A line, and no error."""
    done = debian.install()
    assert done.returncode == 0 and done.stderr == ""
    said = [line for line in done.stdout.splitlines() if "never" in line]
    assert said == ["install-deps: never: there is no such package here; we do without it"]
    assert debian.asked_for() == ["wanted", "sometimes"]


def test_nothing_but_an_optional_package_that_is_not_there(debian):
    assert debian.install("check").returncode == 0
    assert not debian.log.exists()


def test_package_that_is_not_there(debian):
    """What is not optional is an error, in apt's words."""
    debian.has("build\tabsent\n")
    done = debian.install()
    assert done.returncode and "absent" in done.stderr


def test_nothing_is_missing(debian):
    debian.has("build\there\n")
    done = debian.install()
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not debian.log.exists()


def test_neither_root_nor_sudo(debian):
    """It says what to have installed, without what there is not."""
    debian.program("id", "echo 1000")
    done = debian.install()
    assert done.returncode == 1 and "  apt-get install wanted sometimes\n" in done.stderr
    assert "never: there is no such package" in done.stdout


def test_sudo(debian):
    debian.program("id", "echo 1000")
    debian.program("sudo", 'echo sudo >>"$LOG.sudo"; exec "$@"')
    assert debian.install("build").returncode == 0
    assert debian.asked_for() == ["wanted"]
    assert debian.log.with_name("log.sudo").exists()


def test_unknown_group(debian):
    done = debian.install("something")
    assert done.returncode == 2 and "must be one of build clients check" in done.stderr
