# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""An install in /usr/local: the README's commands, word for word."""

import re

from conftest import RELEASES, ROOT, Tree


def commands(*patterns):
    """The indented lines of README.md that match, one each."""
    lines = re.findall(r"^ {4}(\S.*)$", (ROOT / "README.md").read_text(), re.M)
    for pattern in patterns:
        line, = (line for line in lines if re.search(pattern, line))
        yield line


def test_example_of_the_readme():
    tree = Tree(RELEASES[0], "build")
    try:
        tree.source("/src")
        build = commands("^cmake --preset release", "^sudo cmake --install build")
        tree.shell("; ".join(build).replace("sudo ", "") + " >/dev/null", chdir="/src")
        run = "; ".join(commands("-o storage_server", "/storage_server --cycles")).replace("100000", "1000")
        assert "refused, as it must be" in tree.shell(run, chdir="/src")
    finally:
        tree.remove()
