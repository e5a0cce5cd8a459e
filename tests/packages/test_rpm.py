# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The spec file, by Debian's rpmbuild and rpmlint. Debian has no rpm database, hence --nodeps."""

import re

import pytest
from trees import ROOT, Tree

NAME = "simhca-" + re.search(r"^project\(simhca VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.M)[1]


@pytest.fixture(scope="module")
def rpms(release):
    tree = Tree(release, "build", "rpm")
    tree.source(f"/src/{NAME}")
    tree.shell(f"""
        tar -C /src -czf /src/{NAME}.tar.gz {NAME}
        rpmbuild -ta --nodeps --define '_topdir /rpm' /src/{NAME}.tar.gz""")
    yield tree
    tree.remove()


def test_rpmlint_is_quiet(rpms):
    """simhca.rpmlintrc is for all versions, some of which complain about what is for others."""
    said = rpms.shell("""
        rpmlint $(rpmlint --help | grep -o -m 1 -e --ignore-unused-rpmlintrc) \\
            -r redhat/simhca.rpmlintrc redhat/simhca.spec /rpm/RPMS/*/*.rpm /rpm/SRPMS/*.rpm""",
                      chdir=f"/src/{NAME}")
    assert re.search(r"\b0 errors, 0 warnings", said), said


def test_debug_symbols(rpms):
    """They are in a package of their own, with the sources that they name."""
    if rpms.release == "bookworm":
        pytest.skip("Debian 12's rpmbuild makes no packages of debug symbols")
    said = rpms.shell("rpm -qpl /rpm/RPMS/*/simhca-debuginfo-*.rpm")
    assert re.search(r"/usr/bin/simhcad.*\.debug$", said, re.M), said[:1000]
    assert re.search(r"^/usr/src/debug/.*/simhcad/main\.c$", said, re.M), said[:1000]


def test_needs_the_private_abi(rpms):
    said = rpms.shell("rpm -qp --requires /rpm/RPMS/*/simhca-libs-*.rpm")
    assert "libibverbs.so.1(IBVERBS_PRIVATE_" in said
    assert "libibverbs(" in said and ") < " in said
    assert "libibverbs(x86-64) >= 0" not in said


def test_files_have_one_package(rpms):
    names = {}
    for package in ("simhca-0", "simhca-libs", "simhca-devel"):
        said = rpms.shell(f"rpm -qpl /rpm/RPMS/*/{package}*.rpm")
        names[package] = {line for line in said.split() if line.startswith(("/usr/lib64", "/usr/bin"))}
    assert "/usr/bin/simhcad" in names["simhca-0"]
    plugins = {name for name in names["simhca-libs"] if re.search(r"/libibverbs/libsimhca-rdmav\d+\.so$", name)}
    assert len(plugins) == 1 and names["simhca-libs"] - plugins - {"/usr/lib64/libibverbs"} == {
        f"/usr/lib64/{library}.so.{version}" for library in ("libsimhca", "libsimhca-cq") for version in ("1", "1.0.0")}
    assert "/usr/lib64/pkgconfig/simhca.pc" in names["simhca-devel"]
