# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The packages of a release, and the table of what became of them."""
import shutil
import time

import tables
from trees import Tree


def note(release, what, result):
    """A row for each question, a column for each release."""
    tables.cell("packages", what, release, result)


class Built:
    """The packages of one release, in a directory of ours, and where they were built."""

    def __init__(self, release, directory):
        self.release = release
        self.directory = directory / release
        self.directory.mkdir()
        self.tree = Tree(release, "build", "debian")
        started = time.monotonic()
        self.tree.source("/src/simhca")
        # The unit tests are scripts/test platforms' business, but the package's own way to
        # them is tried once.
        nocheck = {} if release == "trixie" else {"DEB_BUILD_OPTIONS": "nocheck",
                                                  "DEB_BUILD_PROFILES": "nocheck"}
        self.log = self.tree.run("dpkg-buildpackage", "-us", "-uc", chdir="/src/simhca",
                                 **nocheck).stdout
        note(release, "built", f"{time.monotonic() - started:.0f} s")
        for path in (self.tree.path / "src").iterdir():
            if path.is_file():
                shutil.copy(path, self.directory)

    def deb(self, name):
        path, = self.directory.glob(f"{name}_*.deb")
        return path
