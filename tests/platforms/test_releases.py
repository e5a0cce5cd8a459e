# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
The two commands of the README in each Debian release, as root and as a user: the demo, and the
suites that do not need programs of others; and the release's programs for EFA. SIMHCA_PLATFORMS=short leaves out
most.
"""
import fnmatch
import os
import re
import subprocess
import xml.etree.ElementTree as xml

import pytest

import tables
from trees import LOGS, RELEASES, Tree

USERS = "root", "user"
HOMES = {"root": "/root", "user": "/home/user"}
SUITES = "unit", "python", "upstream"
SHORT = {("trixie", "root", "demo")}
TIME_LIMIT = 2400  # seconds for a suite; it has limits of its own
# Of scripts/packages. What the short form runs needs no more than these of the tests' programs; tests/cbmc has its image, too.
SHORT_FORM = os.environ.get("SIMHCA_PLATFORMS") == "short"
GROUPS = ("build", "demo", "proofs") if SHORT_FORM else ("build", "demo", "test")

# In a tree as scripts/test leaves it, or a fresh one.
EFA = """\
cmake --preset release >/dev/null && cmake --build --preset release >/dev/null &&
/usr/bin/python3 -m pytest -v --junitxml=build/test-logs/efa.xml tests/clients/test_efa.py tests/clients/test_releases.py"""

# What may skip in unit and python: release-user, and what the test and its reason say; a C test gives
# none but its name. upstream has a list of its own, tests/upstream/skips.
SKIPS = [
    ("*", "of Ethernet ports"),
    ("*", "of InfiniBand ports"),
    ("*", "this is one"),
    ("[bt]*", r"came with rdma-core (59|6\d)"),
    ("bookworm-*", r"came with rdma-core \d+"),
    # Over packets that wait in a queue; the tests say why.
    ("*", r"^test_odp\w*_mtu::"),
    # Of the host.
    ("*", "userfaultfd that holds up its own accesses"),
    ("*", "two huge pages are needed"),
    ("*", "another_cpus_thread_is_invited"), # needs the CPUs 0 and 1
    # Of a release's programs for EFA.
    ("*", r"Debian \d+ has no "),
    # For root.
    ("*-user", "raw packets are for CAP_NET_RAW"),
    ("*-user", "for root alone"),
    ("*-user", "only root can give a directory away"),
    ("*-user", "events_are_used_where_they_can_be_had"),
    ("*-user", "pages_dropped_while_they_come"),
]


def is_in_this_form(*case):
    return not SHORT_FORM or case in SHORT


def cases(*whats):
    return [pytest.param(release, user, *([what] if len(whats) > 1 else []),
                         id="-".join([release, user] + ([what] if len(whats) > 1 else [])))
            for release in RELEASES for user in USERS for what in whats
            if is_in_this_form(release, user, what)]


def checkout(tree, user):
    """Copies this one there, the first time; where it is, as the tree's programs see it."""
    where = f"{HOMES[user]}/simhca"
    if not (tree.path / where[1:]).exists():
        tree.source(where, user != "root")
    return where


def script(tree, user, *argv, name=None):
    """Runs one of our scripts as a newcomer does; what it printed, and its exit status."""
    log = LOGS / f"{tree.release}-{user}-{name or '-'.join(map(os.path.basename, argv))}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "w", encoding="utf-8") as output:
        done = subprocess.run(
            tree.command(*argv, user=user != "root", chdir=checkout(tree, user)),
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, timeout=TIME_LIMIT,
            check=False)
    text = log.read_text(encoding="utf-8", errors="replace")
    return text, done.returncode


def version(tree, record_property):
    """Of the release's rdma-core; it is in the report, too."""
    found = tree.run("dpkg-query", "-W", "-f=${Version}", "libibverbs1").stdout
    record_property("rdma-core", found)
    return found


def end_of(text):
    return "\n".join(text.splitlines()[-150:])


def reports(tree, user, suite):
    """The reports that a suite has left; they are kept beside the logs."""
    names = ["ctest.xml", f"{suite}.xml", f"{suite}-*.xml"]
    logs = tree.path / checkout(tree, user)[1:] / "build" / "test-logs"
    found = sorted(path for name in names for path in logs.glob(name))
    for report in found:
        (LOGS / f"{tree.release}-{user}-{report.name}").write_bytes(report.read_bytes())
    return [xml.parse(report).getroot() for report in found]


def skipped(report):
    """What a suite has skipped: (test, reason)."""
    for case in report.iter("testcase"):
        test = f"{case.get('classname')}::{case.get('name')}"
        skip = case.find("skipped")
        if skip is not None:
            yield test, skip.get("message", "")
        # A test of ctest is a program of many, by cmocka or pytest.
        for reason in re.findall(r"^(?:\[  SKIPPED \]|SKIPPED \[\d+\]) (.*)$",
                                 case.findtext("system-out") or "", re.M):
            yield test, reason


def expect_legal_skips(release, user, found):
    legal = [reason for where, reason in SKIPS if fnmatch.fnmatchcase(f"{release}-{user}", where)]
    unlisted = [(test, reason) for report in found for test, reason in skipped(report)
                if not any(re.search(one, f"{test} {reason}") for one in legal)]
    assert not unlisted, "skips for a reason that SKIPS does not have"


@pytest.fixture(scope="module")
def trees():
    """trees(release, groups...): one with what these groups of scripts/packages name, made once; all go in the end."""
    made = {}

    def tree(release, *groups):
        if (release, groups) not in made:
            made[release, groups] = Tree(release, *groups)
        return made[release, groups]

    yield tree
    for one in made.values():
        one.remove()


def note(release, user, what, result):
    """A row for each release and user, a column for each of these."""
    tables.cell("platforms", f"{release}, {user}", what, result)


@pytest.mark.parametrize("release, user", cases("demo"))
def test_demo(release, user, trees, record_property):
    """Each program of the demo has measured something."""
    tree = trees(release, *GROUPS)
    if SHORT_FORM:  # the demo keeps what is configured, and builds in half of the time
        text, status = script(tree, user, "cmake", "--preset", "release", "-DSIMHCA_TOGETHER=ON",
                              "-DCMAKE_C_FLAGS_RELEASE=-O1 -DNDEBUG", name="configured")
        assert status == 0, end_of(text)
    text, status = script(tree, user, "scripts/demo")
    note(release, user, "rdma-core", version(tree, record_property))
    note(release, user, "demo", "failed" if status else "works")
    assert status == 0, end_of(text)
    assert re.search(r"^ibv_rc_pingpong .* usec$", text, re.M), end_of(text)


@pytest.mark.parametrize("release, user, suite", cases(*SUITES))
def test_suite(release, user, suite, trees, record_property):
    """A suite passes, and skips nothing but what the file `skips` gives a reason for."""
    tree = trees(release, *GROUPS)
    text, status = script(tree, user, "scripts/test", suite)
    found = reports(tree, user, suite)
    note(release, user, "rdma-core", version(tree, record_property))
    counted = re.search(rf"^{suite}: (\d+) passed, (\d+) failed, (\d+) skipped$", text, re.M)
    note(release, user, suite, "/".join(counted.groups()) if counted else "failed")
    assert status == 0 and counted, end_of(text)
    assert int(counted[1]) > 50, end_of(text)
    if suite == "upstream":
        return  # it has a list of its own, and holds its skips against that
    expect_legal_skips(release, user, found)


@pytest.mark.parametrize("release, user", cases("efa"))
def test_efa(release, user, trees, record_property):
    """libefa, perftest, libfabric and Open MPI of the release drive --model efa."""
    tree = trees(release, "build", "efa")
    text, status = script(tree, user, "sh", "-c", EFA, name="efa")
    counted = re.search(r"(\d+) passed", text)
    note(release, user, "rdma-core", version(tree, record_property))
    note(release, user, "efa", counted[1] if counted and not status else "failed")
    assert status == 0 and counted and int(counted[1]) > 30, end_of(text)
    expect_legal_skips(release, user, reports(tree, user, "efa"))
