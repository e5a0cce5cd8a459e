# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
The examples' objects of Kubernetes, read as the Go types of its API by Debian 13's golang-k8s-api-dev (0.32): field by
field what `kubectl apply --dry-run` would refuse. kubectl itself needs an API server for that, and kubeconform is in no
Debian; what only a server judges, such as whether names fit together, is in tests/clients/test_kubernetes.py or was not run.
"""
import os
import pathlib
import shutil

import pytest
from trees import ROOT, Tree

FILES = ["kubernetes/namespace.yaml", "kubernetes/daemonset.yaml", "kubernetes/job.yaml", "two-hosts/pods.yaml"]
KINDS = ["v1 Namespace", "apps/v1 DaemonSet", "v1 Service", "batch/v1 Job", "v1 Service", "v1 Pod", "v1 Pod"]

pytestmark = [
    pytest.mark.skipif(os.environ.get("SIMHCA_PACKAGES") == "short",
                       reason="in the long form only: scripts/test packages"),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: scripts/chroot")]


@pytest.fixture(scope="module")
def tree():
    tree = Tree("trixie", "manifests")
    directory = tree.path / "manifests"
    directory.mkdir()
    for name in FILES:
        shutil.copy(ROOT / "examples" / name, directory)
    shutil.copy(ROOT / "tests/packages/manifests.go", directory)
    tree.run("go", "build", "-o", "/manifests/read", "manifests.go", chdir="/manifests", GO111MODULE="off",
             GOPATH="/usr/share/gocode")
    yield tree
    tree.remove()


def read(tree, *names):
    done = tree.run("./read", *names, chdir="/manifests", check=False)
    return done.returncode, done.stdout.splitlines()


def test_examples(tree):
    status, said = read(tree, *(pathlib.Path(name).name for name in FILES))
    assert status == 0, said
    assert [line.partition(": ")[2] for line in said] == KINDS


@pytest.mark.parametrize("right, wrong, complaint", [
    ("hostPID:", "hostPids:", 'unknown field "hostPids"'),
    ("hostPID: true", "hostPID: 1", "cannot unmarshal number"),
    ("kind: DaemonSet", "kind: Daemonset", "no such kind")])
def test_mistakes(tree, right, wrong, complaint):
    """That they are read strictly."""
    text = (ROOT / "examples/kubernetes/daemonset.yaml").read_text()
    assert right in text
    (tree.path / "manifests" / "wrong.yaml").write_text(text.replace(right, wrong))
    status, said = read(tree, "wrong.yaml")
    assert status == 1 and complaint in said[0], said
