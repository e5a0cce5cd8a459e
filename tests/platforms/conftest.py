# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Fresh trees of Debian releases, by scripts/chroot."""
import pytest

from trees import Tree


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

