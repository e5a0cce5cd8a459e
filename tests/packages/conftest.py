# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Packages are built and installed in fresh trees of Debian releases, by scripts/chroot."""

import os
import pathlib
import subprocess
import tempfile

import pytest

from built import Built, note
from trees import RELEASES, ROOT


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
        note(release, name, "ok" if report.passed else "FAILED")
