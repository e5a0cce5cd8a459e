# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Packages are built and installed in fresh trees of Debian releases, by scripts/chroot."""

import collections
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
RELEASES = os.environ.get("SIMHCA_RELEASES", "bookworm trixie sid").split()
table = collections.defaultdict(dict)  # release -> {what: result}


def chroot(*arguments, check=True, timeout=1800):
    done = subprocess.run([ROOT / "scripts" / "chroot", *map(str, arguments)], text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=timeout, check=False)
    assert not check or done.returncode == 0, done.stdout
    return done


class Tree:
    """A fresh system."""

    def __init__(self, release, *groups):
        self.release = release
        # The path is on the last line; what makes an image talks before.
        self.path = pathlib.Path(chroot("new", release, *groups).stdout.splitlines()[-1])

    def run(self, *command, user=False, online=False, chdir=None, check=True, **environment):
        """
        Not online, it has a network of its own: what needs one says so, and ports are those of no
        other tree.
        """
        options = ["--user"] if user else []
        options += [] if online else ["--offline"]
        options += ["--chdir", chdir] if chdir else []
        for name, value in environment.items():
            options += ["--env", f"{name}={value}"]
        return chroot("run", *options, self.path, *command, check=check)

    def shell(self, script, *arguments, **options):
        return self.run("sh", "-euc", script, "sh", *arguments, **options).stdout

    def install(self, *packages, recommends=False):
        self.shell('apt-get -q update >/dev/null; DEBIAN_FRONTEND=noninteractive apt-get -q -y '
                   '-o Acquire::Retries=3 "$@"', "install",
                   *([] if recommends else ["--no-install-recommends"]), *packages, online=True)

    def source(self, directory):
        chroot("source", self.path, directory)

    def remove(self):
        chroot("remove", self.path)


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
        table[release]["built"] = f"{time.monotonic() - started:.0f} s"
        for path in (self.tree.path / "src").iterdir():
            if path.is_file():
                shutil.copy(path, self.directory)

    def deb(self, name):
        path, = self.directory.glob(f"{name}_*.deb")
        return path


@pytest.fixture(scope="session")
def builds():
    """built(RELEASE): once for each."""
    made = {}
    with tempfile.TemporaryDirectory(prefix="simhca-packages-", dir="/var/tmp") as directory:

        def built(release):
            if release not in made:
                made[release] = None
                made[release] = Built(release, pathlib.Path(directory))
            assert made[release], "the packages could not be built, see above"
            return made[release]

        yield built
        for build in made.values():
            if build:
                build.tree.remove()


@pytest.fixture(scope="session")
def published():
    """
    A release of the commit, as it would be published: for Debian 13 packages, for others the tree.
    SIMHCA_PUBLISHED names one that is there already.
    """
    if "SIMHCA_PUBLISHED" in os.environ:
        yield pathlib.Path(os.environ["SIMHCA_PUBLISHED"])
        return
    with tempfile.TemporaryDirectory(prefix="simhca-published-", dir="/var/tmp") as directory:
        subprocess.run([ROOT / "scripts/release", "--out", directory, "tree", "debs=trixie", "sums"], check=True,
                       stdin=subprocess.DEVNULL, timeout=3000)
        os.chmod(directory, 0o755)
        yield pathlib.Path(directory)


@pytest.fixture(scope="session", params=RELEASES)
def release(request):
    return request.param


@pytest.fixture
def built(builds, release):
    return builds(release)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    report = (yield).get_result()
    release = item.callspec.params.get("release") if hasattr(item, "callspec") else None
    if release and not report.skipped and (report.when == "call" or report.failed):
        name = item.name.removeprefix("test_").split("[")[0]
        table[release][name] = "ok" if report.passed else "FAILED"


def pytest_terminal_summary(terminalreporter):
    if not table:
        return
    rows = list(dict.fromkeys(name for column in table.values() for name in column))
    terminalreporter.write_line("")
    terminalreporter.write_line(f"{'packages':36}" + "".join(f"{name:>12}" for name in table))
    for row in rows:
        terminalreporter.write_line(f"{row:36}" + "".join(
            f"{column.get(row, '-'):>12}" for column in table.values()))
