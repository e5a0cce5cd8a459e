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
