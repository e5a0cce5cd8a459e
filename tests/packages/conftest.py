# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The releases that packages are built for, a release of the commit, and the table of what passed."""

import os
import pathlib
import subprocess
import tempfile

import pytest

from built import note
from trees import RELEASES, ROOT


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


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    report = (yield).get_result()
    release = item.callspec.params.get("release") if hasattr(item, "callspec") else None
    if release and not report.skipped and (report.when == "call" or report.failed):
        name = item.name.removeprefix("test_").split("[")[0]
        note(release, name, "ok" if report.passed else "FAILED")
