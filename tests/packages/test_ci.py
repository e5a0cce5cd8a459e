# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""A release in the jobs of CI: the GitHub Action, the template of GitLab, and scripts/get, which both call."""

import functools
import http.server
import shutil
import threading

import pytest
import yaml
from trees import ROOT
from runners import Failed, GitHub, GitLab, Machine, repository, sources

SYSTEM = "trixie"


def pingpongs(said):
    return said.count("1000 iters in")


def test_github(published):
    """examples/ci/github.yml, by the package."""
    workflow = yaml.safe_load((ROOT / "examples/ci/github.yml").read_text())
    with Machine(SYSTEM, published) as machine:
        GitHub(machine, SIMHCA_RELEASE="/release").job(workflow["jobs"]["test"])
        assert pingpongs(machine.said) == 4 and "simhca0" in machine.said and "building" not in machine.said
        assert (machine.tree.path / "usr/bin/simhca").exists()


def test_action_with_options(published):
    """By the tree, which was made with the libibverbs of another release; and without a device for all."""
    with Machine(SYSTEM, published) as machine:
        job = GitHub(machine)
        outputs = job.action({"from": "/release", "as": "tree", "start": "no"})
        assert outputs == {"bin": "/opt/simhca/bin"}
        assert not any(name in job.environment for name in ("LD_PRELOAD", "SIMHCA_RUNTIME_DIR"))
        job.step({"run": "simhca run --private -- ibv_devices | grep simhca0"}, {"steps": {}})
        job.action({"from": "/release", "as": "tree", "start": "--link-layer ib"})
        assert "libsimhca-preload.so" in job.environment["LD_PRELOAD"]
        job.step({"run": "ibv_devinfo | grep -x '.*link_layer:.*InfiniBand'; echo it is"}, {"steps": {}})
        assert machine.said.endswith("it is\n")
        with pytest.raises(Failed, match="no-such-option"):
            job.action({"from": "/release", "as": "tree", "start": "--no-such-option"})


def test_gitlab(published):
    with Machine(SYSTEM, published) as machine:
        repository(machine.tree, "/srv/simhca.git")
        said = GitLab(machine, SIMHCA_REPOSITORY="file:///srv/simhca.git", SIMHCA_RELEASE="/release").run(
            GitLab.job(ROOT / "examples/ci/gitlab.yml", "rdma"))
        assert pingpongs(said) == 4 and "simhca0" in said and "building" not in said


def get(machine, *options):
    place = machine.tree.path / "runner/sources"
    if not place.exists():
        sources(place)
    return machine.run("sh", "exec sh /runner/sources/scripts/get " + " ".join(options),
                       {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"})


@pytest.fixture
def served(published):
    """The release by http."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=published)
    handler.log_message = None
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_get(published, served, tmp_path):
    """By http without curl and wget, as in an image of Debian; what was changed is refused, and nothing is built then."""
    changed = tmp_path / "changed"
    shutil.copytree(published, changed)
    deb, = changed.glob("simhca_*.deb")
    deb.write_bytes(deb.read_bytes() + b"x")
    with Machine(SYSTEM, changed) as machine:
        status, said = get(machine, "--from", "/release")
        assert status == 1 and "is not the file that SHA256SUMS tells of; nothing was installed" in said
        assert not (machine.tree.path / "usr/bin/simhca").exists()
        status, said = get(machine, "--from", "/nonexistent", "--as", "package")
        assert status == 1 and said == "get: no release in /nonexistent has a package for this system\n"
        for wrong in ["--as", "deb"], ["--from"], ["--rpm"], ["--into", "/debs", "--as", "tree"]:
            status, said = get(machine, *wrong)
            assert status == 2 and said.count("\n") == 1 and wrong[0] in said
        status, said = get(machine, "--from", served, "--into", "/debs")
        assert status == 0 and said.splitlines()[-1] == "/debs"
        assert {path.name for path in (machine.tree.path / "debs").iterdir()} == {path.name for path in published.glob("*.deb")}


def test_get_builds_without_a_release():
    with Machine(SYSTEM, "/mnt", "build", "debian") as machine:
        status, said = get(machine, "--from", "/release", "--into", "/debs")
        assert status == 0, said
        assert "no release in /release is for this system: building" in said
        made = sorted(path.name for path in (machine.tree.path / "debs").iterdir())
        assert {name.split("_")[0] for name in made} == {"libsimhca-cq1", "libsimhca-dev", "simhca", "simhca-kubernetes"}
        assert len(made) == 4
        assert all(name.endswith(".deb") for name in made)
