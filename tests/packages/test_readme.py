# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The README's commands, word for word, in systems without anything."""

import re

from conftest import RELEASES, ROOT, Tree


def commands(*patterns):
    """The indented lines of README.md that match, one each, as root has them."""
    lines = re.findall(r"^ {4}(\S.*)$", (ROOT / "README.md").read_text(), re.M)
    for pattern in patterns:
        line, = (line for line in lines if re.search(pattern, line))
        yield line.replace("sudo ", "")


def test_packages():
    """As those who have nothing but a checkout make them."""
    tree = Tree("trixie" if "trixie" in RELEASES else RELEASES[0])
    try:
        tree.source("/src/simhca")
        tree.shell("echo 'APT::Get::Assume-Yes \"true\";' >/etc/apt/apt.conf.d/yes; apt-get -q update >/dev/null",
                   online=True)
        depends, build, install = commands(" build-dep ", "dpkg-buildpackage", "^sudo apt install")
        tree.shell(depends, chdir="/src/simhca", online=True)
        tree.shell(build, chdir="/src/simhca")
        tree.shell(install, chdir="/src/simhca", online=True)
        run, = commands("^simhca run -- ibv_devinfo")
        assert "simhca0" in tree.shell(run, user=True)
    finally:
        tree.remove()


def test_example_of_an_installation_in_usr_local():
    tree = Tree(RELEASES[0], "build")
    try:
        tree.source("/src")
        build = commands("^cmake --preset release", "^sudo cmake --install build")
        tree.shell("; ".join(build) + " >/dev/null", chdir="/src")
        run = "; ".join(commands("-o storage_server", "/storage_server --cycles")).replace("100000", "1000")
        assert "refused, as it must be" in tree.shell(run, chdir="/src")
    finally:
        tree.remove()
