# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""scripts/release: the same bytes each time, a tree that runs from where it is unpacked, and a true list of what is in it."""

import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import tarfile

import pytest
from trees import Tree

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


def test_needs_no_newer_libc_than_ubuntu_has(tree):
    """22.04's; what is made on a newer system than Debian 12 may need more."""
    if "VERSION_ID=\"12\"" not in pathlib.Path("/etc/os-release").read_text():
        pytest.skip("releases are made on Debian 12")
    for path in tree.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.read_bytes()[:4] == b"\x7fELF":
            needs = re.findall(r"GLIBC_2\.(\d+)", run("objdump", "-T", path))
            assert max(map(int, needs), default=0) <= 35, path


def test_has_a_provider_for_each_libibverbs(tree):
    """Of rdma-core 39 to 43, 44, and 45 to 56; which one it is built for itself depends on the system."""
    first = re.search(r"-rdma-core-(\d+)-to-(\d+)$", tree.name)
    if first[1] != "39":
        pytest.skip("this system's libibverbs has another private ABI than 34")
    assert first[2] == "56" and len(list((tree / "lib/simhca").glob("libsimhca-rdmav34-*.so"))) == 2


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


def test_tag(tmp_path):
    """A tag of the version, once the changelog has its day; what it says is the changelog's section."""
    run("git", "clone", "-q", ROOT, tmp_path / "sources")
    git = ["git", "-C", tmp_path / "sources", "-c", "user.name=x", "-c", "user.email=x@example.org"]
    page = tmp_path / "sources/CHANGELOG.md"
    release = [tmp_path / "sources/scripts/release", "--out", tmp_path / "out", "tag"]
    who = {"GIT_COMMITTER_NAME": "x", "GIT_COMMITTER_EMAIL": "x@example.org"}
    version = re.search(r"^project\(simhca VERSION (\S+)", (tmp_path / "sources/CMakeLists.txt").read_text(), re.M)[1]

    def refused():
        done = subprocess.run(release, env=os.environ | who, capture_output=True, text=True, check=False)
        assert done.returncode and not list((tmp_path / "out").iterdir())
        return done.stderr

    dated = re.sub(r"(?m)^## .*$", f"## {version} (2026-12-31)", page.read_text(), count=1)
    page.write_text(re.sub(r"(?m)^## .*$", f"## Unreleased ({version})", dated, count=1))
    run(*git, "commit", "-q", "--allow-empty", "-a", "-m", "x")
    assert f"has to be '## {version} (DATE)'" in refused()
    page.write_text(dated)
    assert "has to be" in refused() # as the commit has it
    run(*git, "commit", "-q", "-a", "-m", "x")
    page.write_text(dated + "more")
    assert "not committed" in refused()
    run(*git, "checkout", "-q", ".")
    run(*release, **who)
    assert run(*git, "rev-parse", f"v{version}^{{commit}}") == run(*git, "rev-parse", "HEAD")
    text = run(*git, "for-each-ref", "--format=%(contents)", f"refs/tags/v{version}")
    section = re.search(rf"^## {re.escape(version)} .*?\n(.*?)(?=^## |\Z)", dated, re.M | re.S)[1]
    assert text.strip() == f"simhca {version}\n\n{section.strip()}" and "### " in text
    assert "already exists" in refused()


# ------------------------------------------------------------------ packages, and the image that is made of them


def test_packages_have_the_version_of_their_release(published):
    deb, = published.glob("simhca_*.deb")
    assert re.fullmatch(r"simhca_[\d.]+\+deb13_\w+\.deb", deb.name)
    assert run("dpkg-deb", "-f", deb, "Version").strip() == deb.name.split("_")[1]
    assert not list(published.glob("*dbgsym*")) and len(list(published.glob("*.deb"))) == 4
    said = subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=published, capture_output=True, text=True, check=True)
    assert said.stdout.count(": OK") == len(list(published.iterdir())) - 1


def test_rpms(tmp_path):
    run(ROOT / "scripts/release", "--out", tmp_path, "rpms=trixie", "sums")
    names = {path.name.split("-0.")[0]: path.name for path in tmp_path.glob("*.rpm")}
    assert set(names) == {"simhca", "simhca-libs", "simhca-devel"} and ".rdma_core_56." in names["simhca"]


@pytest.fixture(scope="module")
def images(published, tmp_path_factory):
    """Both, made of the release by the Dockerfile; what was built before is taken."""
    if not shutil.which("buildah") or not shutil.which("mmdebstrap"):
        pytest.skip("needs buildah and mmdebstrap: scripts/install-deps containers chroot")
    out = tmp_path_factory.mktemp("images")
    for path in published.iterdir():
        shutil.copy(path, out)
    assert "building" not in run(ROOT / "scripts/release", "--out", out, "image", "sums")
    return out


@pytest.fixture
def container(images, tmp_path):
    """container(NAME): the configuration of an image, and a fresh system that has its files and nothing else."""
    systems = []

    def made(name):
        image = one(images, f"{name}-0.*-oci.tar")
        assert image.name in (images / "SHA256SUMS").read_text()
        run("tar", "-x", "-C", tmp_path, "-f", image)

        def blob(reference):
            return tmp_path / "blobs" / reference["digest"].replace(":", "/")

        manifest = json.loads(blob(json.loads((tmp_path / "index.json").read_text())["manifests"][0]).read_text())
        system = Tree("trixie")
        systems.append(system)
        for entry in system.path.iterdir():
            if entry.name not in (".simhca-chroot", "dev", "proc", "sys", "run"):
                shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
        for layer in manifest["layers"]:
            run("tar", "-x", "-C", system.path, "--exclude=./dev/*", "-f", blob(layer))
        return json.loads(blob(manifest["config"]).read_text())["config"], system

    yield made
    for system in systems:
        system.remove()


def test_image(container):
    """It runs: in a chroot, as an engine would in its own way."""
    config, system = container("simhca")
    assert config["Entrypoint"] == ["simhca", "run", "--"] and config["Cmd"] == ["ibv_devinfo"]
    variables = dict(variable.split("=", 1) for variable in config["Env"])
    said = system.run(*config["Entrypoint"], *config["Cmd"], **variables).stdout
    assert "simhca0" in said and "PORT_ACTIVE" in said


def test_image_for_nodes_of_kubernetes(container):
    """It has what the containers of examples/kubernetes run."""
    config, system = container("simhca-kubernetes")
    assert "Entrypoint" not in config and not any("LD_PRELOAD" in variable for variable in config["Env"])
    for program in "simhcad", "simhca-device-plugin":
        system.run(program, "--help")
    system.run("sh", "-c", "command -v ib_write_bw") # its --help fails
    assert "simhca.dev/hca" in system.run("simhca", "run", "--", "simhca", "cdi").stdout
