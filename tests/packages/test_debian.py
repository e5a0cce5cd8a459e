# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Debian packages: built, judged by lintian, and the life of an installed system with them.

The tests of one release use one tree, in this order: a newcomer's first minute, an upgrade, the purge;
compilers come only then, for what autopkgtest builds.
"""

import pathlib
import re
import subprocess
import tempfile
import time

import pytest
from built import Built, note
from trees import Tree

MUSL = pathlib.Path("/usr/bin/musl-gcc")


@pytest.fixture(scope="module")
def builds():
    """builds(release): its packages, built once."""
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


@pytest.fixture
def built(builds, release):
    return builds(release)


@pytest.fixture(scope="module")
def system(builds, release):
    """A fresh system with the built packages in /debs, and a list of its files from before."""
    built = builds(release)
    tree = Tree(release)
    debs = tree.path / "debs"
    debs.mkdir()
    for path in built.directory.glob("*.deb"):
        (debs / path.name).write_bytes(path.read_bytes())
    tree.before = files(tree)
    yield tree
    tree.remove()


def files(tree):
    """
    The names of all files of a system. What a user's daemon has in /tmp stays until the next boot, with
    or without packages.
    """
    return set(tree.shell("find / -xdev ! -path '/debs*' ! -path '/tmp/simhca-1000*'").splitlines())


def test_lintian(built):
    said = built.tree.shell('exec lintian --fail-on error,warning --tag-display-limit 0 ./*.changes',
                            user=True, chdir="/src")
    assert said == ""


def test_depends_on_the_releases_that_it_fits(built):
    depends = subprocess.run(["dpkg-deb", "-f", built.deb("simhca"), "Depends"], text=True,
                             stdout=subprocess.PIPE, check=True).stdout
    # Ours with the ~, unless what the symbols need is more.
    first = max(re.findall(r"libibverbs1 \(>= (\d+)~?\)", depends), key=int)
    end, = re.findall(r"libibverbs1 \(<< (\d+)~\)", depends)
    installed = built.tree.shell("dpkg-query -W -f '${Version}' libibverbs1")
    assert int(first) <= int(installed.split(".")[0]) < int(end)
    note(built.release, "libibverbs1", f"{first} to <{end}")


def test_newcomer(system):
    """One package and one command, as any user, without a compiler."""
    started = time.monotonic()
    system.shell("apt-get -q update >/dev/null; apt-get -q -y install ./simhca_*.deb", chdir="/debs",
                 online=True)
    said = system.run("simhca", "run", "--", "ibv_devinfo", user=True).stdout
    assert "simhca0" in said and "PORT_ACTIVE" in said
    note(system.release, "first minute", f"{time.monotonic() - started:.0f} s")
    assert system.run("sh", "-c", "command -v cc gcc c++ clang", check=False).stdout == ""


def test_programs_as_a_user(built, system):
    """What autopkgtest runs as root, see below."""
    system.install("perftest")
    source = built.tree.path / "src/simhca/debian/tests/run"
    (system.path / "debs/run").write_bytes(source.read_bytes())
    said = system.run("sh", "/debs/run", user=True, chdir="/tmp", AUTOPKGTEST_TMP="/tmp").stdout
    assert said.count("passed") == 3
    system.shell("rm /tmp/devinfo /tmp/client /tmp/server")


def test_manual_pages_and_documents(system):
    system.shell("test -e /usr/share/man/man1/simhca.1.gz; test -e /usr/share/man/man8/simhcad.8.gz;"
                 "zcat -f /usr/share/doc/simhca/Documentation/errors.md* | grep -q KEY_UNKNOWN;"
                 "grep -q OpenIB /usr/share/doc/simhca/copyright")


def test_unit_is_off(system):
    """A user may enable it; nobody has it without."""
    system.shell("test -e /usr/lib/systemd/user/simhcad.service")
    assert system.shell("find /etc/systemd /usr/lib/systemd -name 'simhcad*' -type l") == ""


UNIT = """
    pid() { systemctl --user show -P MainPID simhcad; }
    before=$(systemctl --user is-active simhcad || :)
    [ "$before" = "$1" ] || { echo "the unit was $before, not $1"; exit 1; }
    systemctl --user enable --now simhcad 2>&1
    simhca status --json | grep -q '"pid": *'$(pid)',' # our programs join it
    simhca run -- ibv_devices
    killed=$(pid)
    kill -KILL $killed
    for try in $(seq 100); do
        sleep 0.1
        [ "$(systemctl --user is-active simhcad)" != active ] || [ $(pid) = $killed ] || break
    done
    simhca run -- ibv_devices
    systemctl --user stop simhcad
    [ "$(systemctl --user show -P Result simhcad)" = success ]
    [ ! -e "$XDG_RUNTIME_DIR/simhca/tree" ]
"""


def test_user_unit(built):
    """
    Under a systemd: enabled it is there from the next session on, is joined by `simhca run`, comes
    again when it was killed, and leaves nothing when it is stopped.
    """
    tree = Tree(built.release)
    try:
        (tree.path / built.deb("simhca").name).write_bytes(built.deb("simhca").read_bytes())
        tree.install("/" + built.deb("simhca").name, "ibverbs-utils", "systemd")
        script = tree.path / "user_session.sh"
        script.write_bytes((pathlib.Path(__file__).parent / script.name).read_bytes())
        for before in "inactive", "active":
            said = tree.shell('sh /user_session.sh user sh -euc "$1" sh "$2" 2>&1', UNIT, before)
            assert said.count("simhca0") == 2 and "not empty" not in said, said
    finally:
        tree.remove()


def test_image_with_the_device_for_all(system):
    """What containers.md says of `docker exec` and of RUN: variables of the image, a daemon in it."""
    dockerfile = (pathlib.Path(__file__).resolve().parents[2] / "examples/container/Dockerfile").read_text()
    last_stage = dockerfile.rsplit("\nFROM ", 1)[1]
    variables = {name: value.replace("\\$", "$")
                 for name, value in re.findall(r'^ENV (\w+)="([^"\n]*)"$', last_stage, re.M)}
    assert set(variables) == {"LD_PRELOAD"}
    for user in (True, False):
        # Without a daemon nothing is changed; with one, whoever comes has the device.
        said = system.shell("""
            ibv_devices 2>&1 | grep -q simhca0 && echo too early
            simhca run -- sleep 20 & run=$!
            for attempt in $(seq 50); do
                sleep 0.2
                ibv_devices 2>/dev/null | grep simhca0 && break
            done
            kill $run; wait || :""", user=user, **variables)
        assert "simhca0" in said and "too early" not in said


@pytest.mark.skipif(not MUSL.exists(), reason="no musl-gcc here: musl-tools is not installed")
def test_program_of_musl(system, tmp_path):
    client = pathlib.Path(__file__).resolve().parents[1] / "preload" / "musl_client.c"
    subprocess.run([MUSL, "-o", tmp_path / "client", client], check=True)
    system.install("musl")
    (system.path / "debs/musl-client").write_bytes((tmp_path / "client").read_bytes())
    (system.path / "debs/musl-client").chmod(0o755)
    for show, expected in ("auto", "a device\n"), ("preload", "no device\n"):
        assert expected in system.run("simhca", "run", "--show", show, "--", "/debs/musl-client", user=True).stdout
    system.shell("apt-get -q -y purge musl >/dev/null")


def test_upgrade(system):
    """To a later version of all packages; what the administrator changed stays."""
    system.install("/debs/" + next((system.path / "debs").glob("libsimhca-cq1_*")).name)
    system.shell("echo '# mine' >>/etc/libibverbs.d/simhca.driver")
    system.shell("""
        for deb in simhca libsimhca-cq1; do
            dpkg-deb -R /debs/${deb}_0*.deb /tmp/later
            sed -i 's/^Version: .*/&+later/; s/(= \\([^)]*\\))/(= \\1+later)/' /tmp/later/DEBIAN/control
            dpkg-deb -b /tmp/later /debs/later-$deb.deb >/dev/null
            rm -r /tmp/later
        done
        DEBIAN_FRONTEND=noninteractive apt-get -q -y install /debs/later-*.deb""", online=True)
    assert "later" in system.shell("dpkg-query -W -f '${Version}' simhca libsimhca-cq1")
    system.shell("grep -q '# mine' /etc/libibverbs.d/simhca.driver")
    assert "simhca0" in system.run("simhca", "run", "--", "ibv_devices", user=True).stdout


@pytest.fixture
def leftovers(built, release):
    """What the packages that come along with ours leave behind, without ours."""
    names = subprocess.run(["dpkg-deb", "-f", built.deb("simhca"), "Depends", "Recommends"], text=True,
                           stdout=subprocess.PIPE, check=True).stdout
    along = set(re.findall(r"([a-z0-9][a-z0-9.+-]+)(?= *(?:\(|,|\||$))", names, re.M)) | {"perftest"}
    tree = Tree(release)
    try:
        before = files(tree)
        tree.shell("apt-get -q update >/dev/null", online=True)
        installed = tree.shell("dpkg-query -W -f '${Package}\\n'").split()
        along -= set(installed)
        tree.shell('apt-get -q -y install "$@"', *along, online=True)
        tree.shell('apt-get -q -y purge --autoremove "$@"; apt-get clean', *along)
        yield files(tree) - before
    finally:
        tree.remove()


def test_removed_and_purged(system, leftovers):
    """Removal keeps the configuration alone; purge, with what came along, nothing of ours."""
    system.shell("apt-get -q -y remove simhca libsimhca-cq1")
    left = sorted(name for name in files(system) - system.before
                  if "simhca" in name and not name.startswith(("/var/lib/dpkg/", "/var/cache/apt/")))
    # The latter: whether the unit was enabled, for the day of a new installation.
    assert left == ["/etc/libibverbs.d/simhca.driver",
                    "/var/lib/systemd/deb-systemd-user-helper-enabled/simhcad.service.dsh-also"]
    # Without any device ibv_devices may fail.
    assert "simhca" not in system.run("ibv_devices", user=True, check=False).stdout
    # Of libsimhca-cq1, which has no configuration, apt knows nothing by now.
    system.shell("apt-get -q -y purge --autoremove simhca perftest; apt-get clean")
    after = files(system)
    assert sorted(after - system.before - leftovers) == []
    assert sorted(system.before - after) == []


def test_autopkgtest(built, system):
    """As Debian runs debian/tests: on a system that has nothing of ours."""
    system.shell("rm -f /debs/later-* /debs/*-dbgsym_*")
    for path in built.directory.glob("simhca_*[!b]"):
        (system.path / "debs" / path.name).write_bytes(path.read_bytes())
    system.install("autopkgtest")
    said = system.shell("autopkgtest --no-built-binaries ./*.deb ./*.dsc -- null 2>&1", chdir="/debs",
                        online=True)
    assert re.findall(r"^(\S+) +PASS\b", said, re.M) == ["run", "examples"] * 2, said
    assert said.count("refused, as it must be") == 2 and said.count("20000 echoes") == 2, said


def test_depended_on(system):
    """A package of a program that is linked with libsimhca.so depends on ours."""
    system.install("dpkg-dev", "libc6-dev", "gcc", "pkgconf",
                   *(f"/debs/{path.name}" for path in (system.path / "debs").glob("*simhca*_*.deb")))
    said = system.shell("""
        mkdir -p debian; printf 'Source: x\\n\\nPackage: x\\nArchitecture: any\\n' >debian/control
        cc -D_GNU_SOURCE -pthread -o x /usr/share/doc/simhca/examples/fast_reg.c $(pkg-config --cflags --libs simhca)
        dpkg-shlibdeps -O ./x 2>&1""", chdir="/tmp")
    assert "simhca (>= 0.1.0)" in said


def test_of_another_release_is_refused(builds, release):
    """apt says why, where the provider would not load."""
    if release != "trixie":
        pytest.skip("tried once: the package of Debian 12 on 13")
    tree = Tree(release)
    try:
        deb = builds("bookworm").deb("simhca")
        (tree.path / deb.name).write_bytes(deb.read_bytes())
        done = tree.run("sh", "-c", "apt-get -q update >/dev/null; apt-get -q -y install ./simhca_*.deb",
                        chdir="/", online=True, check=False)
        assert done.returncode and re.search(r"Depends: libibverbs1 \(< 45~\)", done.stdout)
    finally:
        tree.remove()
