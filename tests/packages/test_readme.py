# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The commands by which simhca is installed, as the documents have them, in systems without anything."""

import re
import time

from trees import RELEASES, ROOT, Tree
from runners import PATH, Machine, repository


def commands(page, *patterns):
    """The commands of a page that match, one each, as root has them."""
    lines = re.findall(r"^\$ (\S.*)$", (ROOT / page).read_text(encoding="utf-8"), re.M)
    for pattern in patterns:
        line, = {line for line in lines if re.search(pattern, line)}
        yield line.replace("sudo ", "")


def test_first_lines(published):
    """README.md's, by a release that is where SIMHCA_RELEASE says: to a failure that is explained, in five minutes."""
    started = time.monotonic()
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\$ (\S.*)$", page[page.index("## Try it"):page.index("Now any command has a device")], re.M)
    assert len(lines) == 3
    with Machine("trixie", published) as machine:
        repository(machine.tree, "/srv/simhca.git")
        where, subs = re.subn(r"https://\S+", "file:///srv/simhca.git", lines[0])
        assert subs == 1
        script = "apt-get -q update && apt-get -q -y install git >/dev/null\n" + "\n".join([where, *lines[1:]])
        environment = {"HOME": "/root", "PATH": PATH, "SIMHCA_RELEASE": "/release"}
        status, said = machine.run("sh -eu", script, environment)
        assert status == 0 and said.splitlines()[-1] == "/usr/bin", said
        status, said = machine.run("sh -eu", "simhca run -- ibv_devices", environment)
        assert "simhca0" in said, said
        server, client = commands("README.md", "^simhca run -- ibv_rc_pingpong", "^simhca run --explain -- ibv_rc_pingpong")
        status, said = machine.run("bash -u", f"{server}\nsleep 1\n{client} 2>&1; kill $!; wait; exit 0", environment)
        assert "RECV_TOO_SHORT" in said and "Post receives of the longest message" in said, said
    assert time.monotonic() - started < 300


def test_contributing():
    """CONTRIBUTING.md's, by who has a checkout and nothing else: built, tried, and a test of each kind run."""
    tree = Tree("trixie")
    try:
        tree.install("git")
        repository(tree, "/srv/simhca.git")
        tree.shell("git config --global --add safe.directory '*'; git clone -q file:///srv/simhca.git /srv/simhca")
        page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
        said = {}
        for block in re.findall(r"^```console\n(.*?)^```", page, re.M | re.S):
            for line in re.findall(r"^\$ (\S.*)$", block, re.M):
                said[line] = tree.shell(line, chdir="/srv/simhca", online=True)
        assert len(said) == 7
        device, ctest, verbs, clients = (text for line, text in said.items() if not line.startswith(("scripts/", "cmake")))
        assert "simhca0" in device and "100% tests passed" in ctest
        for text in verbs, clients:
            assert re.search(r"^=+ \d+ passed\b", text, re.M), text
    finally:
        tree.remove()


def test_packages():
    """As those who have nothing but a checkout make them."""
    tree = Tree("trixie" if "trixie" in RELEASES else RELEASES[0])
    try:
        tree.source("/src/simhca")
        tree.shell("echo 'APT::Get::Assume-Yes \"true\";' >/etc/apt/apt.conf.d/yes; apt-get -q update >/dev/null",
                   online=True)
        depends, build, install = commands("Documentation/installing.md", " build-dep ", "dpkg-buildpackage", "^sudo apt install")
        tree.shell(depends, chdir="/src/simhca", online=True)
        tree.shell(build, chdir="/src/simhca")
        tree.shell(install, chdir="/src/simhca", online=True)
        run, = commands("Documentation/installing.md", "^simhca run -- ibv_devi")
        assert "simhca0" in tree.shell(run, user=True)
    finally:
        tree.remove()


def test_example_of_an_installation_in_usr_local():
    tree = Tree(RELEASES[0], "build")
    try:
        tree.source("/src")
        build = commands("Documentation/installing.md", "^cmake --preset release", "^sudo cmake --install build")
        tree.shell("; ".join(build) + " >/dev/null", chdir="/src")
        run = "; ".join(commands("Documentation/direct-verbs.md", "-o storage_server", "/storage_server --cycles"))
        assert "refused, as it must be" in tree.shell(run, chdir="/src")
    finally:
        tree.remove()
