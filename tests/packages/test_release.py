# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""scripts/release: the same bytes each time, a tree that runs from where it is unpacked, and a true list of what is in it."""

import hashlib
import json
import os
import pathlib
import subprocess
import tarfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(*command, **changes):
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("SIMHCA_", "LD_", "IBV_", "RDMAV_"))}
    done = subprocess.run([str(word) for word in command], env=environment | changes, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1500, check=False)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def releases(tmp_path_factory):
    """Made twice, in different directories, from a copy of the repository and from a copy of that."""
    made = []
    origin = ROOT
    for name in "first", "second":
        work = tmp_path_factory.mktemp(name)
        run("git", "clone", "-q", origin, work / "sources")
        run(work / "sources/scripts/release", "--out", work / "out")
        made.append(work / "out")
        origin = work / "sources"
    return made


def one(directory, pattern):
    path, = directory.glob(pattern)
    return path


def test_same_bytes(releases):
    first, second = ({path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in out.iterdir()}
                     for out in releases)
    assert first == second and len(first) == 4


def test_sums(releases):
    said = subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=releases[0], capture_output=True,
                          text=True, check=True).stdout
    assert said.count(": OK") == 3


def test_sources_are_those_of_the_commit(releases):
    sources, = (path for path in releases[0].glob("*.tar.gz") if "-rdma-core-" not in path.name)
    with tarfile.open(sources) as tar:
        names = {name.partition("/")[2] for name in tar.getnames() if not tar.getmember(name).isdir()}
        assert {member.mtime for member in tar} == {int(run("git", "-C", ROOT, "log", "-1", "--format=%ct"))}
    assert names == set(run("git", "-C", ROOT, "ls-files").split("\n")) - {""}


@pytest.fixture(scope="module")
def tree(releases, tmp_path_factory):
    path = one(releases[0], "*-rdma-core-*.tar.gz")
    place = tmp_path_factory.mktemp("elsewhere") # nobody has compiled it for that
    run("tar", "-x", "-C", place, "-f", path)
    return one(place, "*")


def test_unpacked_and_run(tree):
    said = run(tree / "simhca", "run", "--private", "--", "ibv_devinfo")
    assert "simhca0" in said and "PORT_ACTIVE" in said


def test_needs_no_library_of_ours(tree):
    """What programs load is libc's, or beside them."""
    for program in "simhca", "simhcad":
        for line in run("ldd", tree / "bin" / program).splitlines():
            if "=>" in line and not line.split()[0].startswith(("libc.", "libm.", "libdl.", "libpthread.", "librt.", "libresolv.")):
                assert str(tree / "bin") in line, line


def test_sbom(releases, tree):
    document = json.loads(one(releases[0], "*.spdx.json").read_text())
    assert document["spdxVersion"] == "SPDX-2.3" and document["packages"][0]["name"] == "simhca"
    said = {entry["fileName"][2:]: entry["checksums"][1]["checksumValue"] for entry in document["files"]}
    there = {str(path.relative_to(tree)): hashlib.sha256(path.read_bytes()).hexdigest()
             for path in tree.rglob("*") if path.is_file() and not path.is_symlink()}
    assert said == there
    named = {package["SPDXID"] for package in document["packages"]}
    assert len(named) == len(document["packages"]) > 5
    assert {relation["relatedSpdxElement"] for relation in document["relationships"]} == named
