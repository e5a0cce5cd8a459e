# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""CBMC: this machine's, if it is new enough, or that of a tree of Debian 13 (scripts/chroot)."""
import os
import re
import shutil
import subprocess

import pytest

from trees import Tree, chroot

OLDEST = 6
# Of scripts/packages, for that tree. Runs of everything have one image for it and for tests/platforms.
SHORT = os.environ.get("SIMHCA_PLATFORMS") == "short"
GROUPS = ["build", "demo", "proofs"] if SHORT else ["proofs"]


def is_here():
    """Whether this machine has one that is new enough."""
    if not shutil.which("cbmc"):
        return False
    said = subprocess.run(["cbmc", "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
    version = re.match(r"(\d+)", said)
    return bool(version) and int(version[1]) >= OLDEST


def of_tree(tree):
    """
    The tree's, by its own loader and with its own libraries: a command inside the tree (`chroot run`) costs more than most
    proofs. What cbmc preprocesses with is this machine's compiler.
    """
    loader, = tree.glob("lib*/ld-linux-*.so.*")
    libraries = [*tree.glob("usr/lib/*-linux-gnu"), tree / "usr" / "lib"]
    return [loader, "--library-path", ":".join(map(str, libraries)), tree / "usr" / "bin" / "cbmc"]


@pytest.fixture(scope="session")
def cbmc():
    """cbmc(*argv): what it says of files."""
    def run(*command):
        return lambda *argv: subprocess.run([*command, *argv], stdout=subprocess.PIPE, text=True, stderr=subprocess.STDOUT,
                                            check=False, timeout=300)

    if is_here():
        yield run("cbmc")
        return
    possible = chroot("possible", check=False)
    if possible.returncode:
        pytest.skip(f"no cbmc of version {OLDEST} here, and no tree of Debian 13: {possible.stdout.strip()}")
    tree = Tree("trixie", *GROUPS)
    yield run(*of_tree(tree.path))
    tree.remove()
