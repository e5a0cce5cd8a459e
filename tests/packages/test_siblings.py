# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
The providers for libibverbs of other releases than the installed one. With SIMHCA_RDMA_CORE, a git repository of
rdma-core, each is tried with a libibverbs that is built of the sources of its releases, and programs of these.
"""
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("SIMHCA_BUILD", ROOT / "build")).resolve()
SOURCES = os.environ.get("SIMHCA_RDMA_CORE")
# First and last of each layout. What git calls each is its tag, but for one that has none yet.
RELEASES = [39, 43, 44, 45, 50, 56, 57, 58, 59, 61, 62, 63, 64, 65]
OPTIONS = ["-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DNO_PYVERBS=1", "-DNO_MAN_PAGES=1", "-DENABLE_RESOLVE_NEIGH=0"]
PROGRAMS = ["ibv_devinfo", "ibv_rc_pingpong"]
TRIED = """
ibv_devinfo -v
for option in -e -N; do # events; the extended interface of QPs
	ibv_rc_pingpong -g 0 -n 100 $option & sleep 1; ibv_rc_pingpong -g 0 -n 100 $option localhost; wait
done
"""

pytestmark = pytest.mark.skipif(os.environ.get("SIMHCA_PACKAGES") == "short",
                                reason="in the long form only: scripts/test packages")


def run(*command, timeout=1200, **variables):
    done = subprocess.run([*map(str, command)], text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=timeout, check=False, env=os.environ | variables)
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout[-5000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def libraries():
    run("cmake", "--build", BUILD, "--target", "siblings")
    return BUILD / "lib"


def symbols(library):
    """What it needs of others, with versions."""
    return re.findall(r" U (\S+)$", run("nm", "-D", "--undefined-only", library), re.M)


def test_all_are_there(libraries):
    """One for each number that libibverbs' private interface has had, and those that it loads; each needs that number."""
    files = {path.name: path for path in libraries.glob("libsimhca-rdmav*.so")}
    numbers = [re.fullmatch(r"libsimhca-rdmav(\d+)(-\d+)?\.so", name) for name in files]
    assert sorted({int(number[1]) for number in numbers}) == [34, 57, 59, 64, 65]
    assert {name for name in files if re.search(r"-\d+\.so$", name)} in (
        {"libsimhca-rdmav34-39.so", "libsimhca-rdmav34-44.so", "libsimhca-rdmav59-59.so"},  # of 45 and newer
        {"libsimhca-rdmav34-39.so", "libsimhca-rdmav34-45.so", "libsimhca-rdmav59-59.so"},  # of 44
        {"libsimhca-rdmav34-39.so", "libsimhca-rdmav34-44.so", "libsimhca-rdmav59-62.so"})  # of 59
    for number in numbers:
        private = {name.partition("@")[2] for name in symbols(files[number[0]]) if "IBVERBS_PRIVATE" in name}
        assert private == {f"IBVERBS_PRIVATE_{number[1]}"}


def test_glibc(libraries):
    """None needs a glibc newer than 2.31, however new the one is that they are built with."""
    for library in [*libraries.glob("libsimhca-rdmav*.so"), libraries / "libsimhca-preload.so"]:
        newer = [name for name in symbols(library) if re.search(r"@GLIBC_2\.(\d+)", name)
                 and int(re.search(r"@GLIBC_2\.(\d+)", name)[1]) > 31]
        assert not newer, library
        needed = run("readelf", "-d", library)
        assert "[libdl.so.2]" in needed and ("[libpthread.so.0]" in needed) == ("rdmav" in library.name), library


def unpack(release, directory):
    """The sources of a release, or of the newest for one that has no tag yet."""
    tag = run("git", "-C", SOURCES, "tag", "--list", f"v{release}.0").strip() or "HEAD"
    directory.mkdir()
    run("sh", "-c", 'git -C "$1" archive "$2" | tar -x -C "$3"', "sh", SOURCES, tag, directory)
    version = re.search(r'set\(PACKAGE_VERSION "(\d+)\.', (directory / "CMakeLists.txt").read_text())[1]
    if int(version) != release:
        pytest.skip(f"{SOURCES} has no release {release}")


@pytest.mark.skipif(not SOURCES, reason="in the long form only, where SIMHCA_RDMA_CORE names a repository of rdma-core")
@pytest.mark.parametrize("release", RELEASES)
def test_with_its_libibverbs(libraries, release, tmp_path):
    """A device is found and opened, and a server and a client talk, with extended QPs, too."""
    unpack(release, tmp_path / "sources")
    run("cmake", "-S", tmp_path / "sources", "-B", tmp_path / "build", *OPTIONS)
    run("cmake", "--build", tmp_path / "build", "--target", "ibverbs", *PROGRAMS)
    said = run(BUILD / "bin/simhca", "run", "--private", "--", "sh", "-euc", TRIED,
               LD_LIBRARY_PATH=str(tmp_path / "build/lib"), PATH=f"{tmp_path / 'build/bin'}:{os.environ['PATH']}")
    assert "PORT_ACTIVE" in said and said.count("iters in") == 4, said
