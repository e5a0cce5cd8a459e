# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
The short form, without a fresh system: what this one's debhelper and lintian make of debian/. It is compiled without
optimization (noopt), which takes half of the time and changes none of the files; test_debian.py has it as it is released.
"""

import os
import re
import shutil
import subprocess

import pytest
from trees import ROOT

TOOLS = "dpkg-buildpackage", "dh", "lintian"


def run(*command, cwd):
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("SIMHCA_", "LD_", "IBV_", "CMAKE_"))}
    done = subprocess.run(command, cwd=cwd, text=True, timeout=900, check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env=environment | {"DEB_BUILD_OPTIONS": "nocheck noopt parallel=2",
                                             "DEB_BUILD_PROFILES": "nocheck"})
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_built_and_judged(tmp_path):
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    if missing:
        pytest.skip(f"no {', '.join(missing)} here: scripts/install-deps debian installs them")
    source = tmp_path / "simhca"
    names = run("git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others",
                "--exclude-standard", "--deduplicate", cwd=ROOT)
    for name in filter(None, names.split("\0")):
        if (ROOT / name).exists():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, source / name)
    run("dpkg-buildpackage", "-us", "-uc", "-b", cwd=source)
    changes, = tmp_path.glob("*.changes")
    assert run("lintian", "--allow-root", "--fail-on", "error,warning", "--tag-display-limit", "0", changes,
               cwd=tmp_path) == ""
    assert {path.name.split("_")[0] for path in tmp_path.glob("*.deb")} == \
        {"simhca", "simhca-dbgsym", "libsimhca-cq1", "libsimhca-cq1-dbgsym", "libsimhca-dev", "simhca-kubernetes"}
    deb, = tmp_path.glob("simhca_*.deb")
    run("dpkg-deb", "-x", deb, tmp_path / "installed", cwd=tmp_path)
    for page in (tmp_path / "installed/usr/share/doc/simhca").rglob("*.md"):
        for link in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page}: {link}"
