# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Fresh trees of Debian releases, by scripts/chroot."""
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CHROOT = ROOT / "scripts" / "chroot"
LOGS = pathlib.Path(os.environ.get("SIMHCA_LOGS", ROOT / "build" / "test-logs")) / "platforms"


class Tree:
    """A fresh system of a release; this checkout is in the home directories of root and a user."""

    HOMES = {"root": "/root", "user": "/home/user"}

    def __init__(self, release, *groups):
        self.release = release
        made = subprocess.run([CHROOT, "new", release, *groups], stdout=subprocess.PIPE, text=True,
                              check=True)
        self.path = pathlib.Path(made.stdout.strip())

    def command(self, *argv, user="root", options=()):
        """What runs a command in it, to be given to subprocess."""
        who = ["--user"] if user != "root" else []
        return [CHROOT, "run", *who, *options, self.path, *argv]

    def run(self, *argv, **how):
        """A quick command; its standard output, if it succeeds."""
        return subprocess.run(self.command(*argv, **how), stdout=subprocess.PIPE, text=True,
                              check=True, timeout=600).stdout

    def source(self, user):
        """Copies the checkout there, the first time; where it is, as the tree's programs see it."""
        where = f"{self.HOMES[user]}/simhca"
        if not (self.path / where[1:]).exists():
            who = ["--user"] if user != "root" else []
            subprocess.run([CHROOT, "source", self.path, where, *who], check=True)
        return where

    def remove(self):
        subprocess.run([CHROOT, "remove", self.path], check=True)


@pytest.fixture(scope="session")
def trees():
    """trees(release): one with all that the suites need; all go when the session ends."""
    made = {}

    def tree(release, *groups):
        if (release, groups) not in made:
            made[release, groups] = Tree(release, *groups)
        return made[release, groups]

    yield tree
    for one in made.values():
        one.remove()


# ------------------------------------------------------------------------------ the table

_RESULTS = {}  # (release, user) -> {what: result}


@pytest.fixture(scope="session")
def table():
    """table(release, user, what, result) is for the table at the end."""

    def add(release, user, what, result):
        _RESULTS.setdefault((release, user), {})[what] = result

    return add


def pytest_terminal_summary(terminalreporter):
    """What passed in which release: passed/failed/skipped of suites."""
    if not _RESULTS:
        return
    whats = list(dict.fromkeys(what for results in _RESULTS.values() for what in results))
    lines = [("release", "as", "rdma-core", *(what for what in whats if what != "rdma-core"))]
    columns = lines[0][2:]
    for (release, user), results in _RESULTS.items():
        lines.append((release, user, *(results.get(what, "-") for what in columns)))
    widths = [max(map(len, column)) for column in zip(*lines)]
    text = "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip()
                     for line in lines)
    terminalreporter.write_line(text)
