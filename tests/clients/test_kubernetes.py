# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
examples/kubernetes without Kubernetes: whether its objects fit together, and its containers' commands, as they stand
there and with the volumes that they mount, on two nodes that are network namespaces. kubelet is the one of kubelet.py,
and what a container engine does with a CDI file is done here.
"""
import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import pytest
import yaml

pytest.importorskip("grpc", reason="no python3-grpcio")

from common import BUILD, TIME_LIMIT, SIMHCA, Launcher, clean_environment, expect_success, wait_until  # noqa: E402
from kubelet import Kubelet, fields  # noqa: E402
from namespaces import another_host, inside, join, namespaces_can_be_had, new_host  # noqa: E402

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples" / "kubernetes"
DOCKERFILE = EXAMPLES.parent / "container" / "Dockerfile"
MTU = 1500

pytestmark = pytest.mark.skipif(not (BUILD / "bin/simhca-device-plugin").exists(),
                                reason="not built: -DSIMHCA_KUBERNETES=ON")


def documents(name):
    return list(yaml.safe_load_all((EXAMPLES / name).read_text()))


@pytest.fixture(scope="module")
def pod():
    """Of the DaemonSet."""
    daemon_set, = documents("daemonset.yaml")
    return daemon_set["spec"]["template"]["spec"]


@pytest.fixture(scope="module")
def job():
    return documents("job.yaml")[1]


def all_containers():
    for name in "daemonset.yaml", "job.yaml":
        spec = documents(name)[-1]["spec"]["template"]["spec"]
        yield from [(spec, container) for container in spec.get("initContainers", []) + spec["containers"]]


# --------------------------------------------------------------------------- what can be read


def test_size():
    assert sum(len(file.read_text().splitlines()) for file in EXAMPLES.iterdir()) <= 150


def test_kinds():
    """Each with the version of its API; none of RBAC, and no token of it for the pods."""
    found = {(document["apiVersion"], document["kind"]) for file in EXAMPLES.glob("*.yaml")
             for document in yaml.safe_load_all(file.read_text())}
    assert found == {("v1", "Namespace"), ("v1", "Service"), ("apps/v1", "DaemonSet"), ("batch/v1", "Job"),
                     ("kustomize.config.k8s.io/v1beta1", "Kustomization")}
    assert documents("daemonset.yaml")[0]["spec"]["template"]["spec"]["automountServiceAccountToken"] is False


def test_kustomization():
    kustomization, = documents("kustomization.yaml")
    assert all((EXAMPLES / name).exists() for name in kustomization["resources"])
    assert kustomization["namespace"] == documents("namespace.yaml")[0]["metadata"]["name"]
    assert {image["name"] for image in kustomization["images"]} == {container["image"] for _, container in all_containers()}


@pytest.mark.skipif(not shutil.which("kubectl"), reason="no kubectl")
def test_kubectl_reads_it():
    """What it would send: all there is, in the namespace."""
    said = subprocess.run(["kubectl", "kustomize", EXAMPLES], capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    objects = {made["kind"]: made for made in yaml.safe_load_all(said.stdout)}
    assert set(objects) == {"Namespace", "DaemonSet"} and objects["DaemonSet"]["metadata"]["namespace"] == "simhca"
    made = objects["DaemonSet"]["spec"]["template"]["spec"]
    assert {container["image"] for container in made["containers"] + made["initContainers"]} == {"simhca-kubernetes:latest"}


def test_images_are_pulled_only_if_they_are_not_there():
    """With a tag that is "latest", or none, Kubernetes would ask a registry, which has no image that was loaded into a node."""
    for _, container in all_containers():
        assert container["imagePullPolicy"] == "IfNotPresent"
    stages = re.findall(r"^FROM .* AS (\S+)$", DOCKERFILE.read_text(), re.M)
    assert "simhca-kubernetes" in stages and set(re.findall("--from=([^ ]+)", DOCKERFILE.read_text())) <= set(stages)


def test_privileges():
    for _, container in all_containers():
        assert "securityContext" not in container


def test_volumes_are_there():
    """What is mounted is a volume of the pod, of the host, at the path that it has there: CDI's file says paths of the host."""
    for spec, container in all_containers():
        volumes = {volume["name"]: volume["hostPath"]["path"] for volume in spec.get("volumes", [])}
        for mount in container.get("volumeMounts", []):
            assert volumes[mount["name"]] == mount["mountPath"]


def test_labels_and_names(job):
    daemon_set, = documents("daemonset.yaml")
    service = documents("job.yaml")[0]
    template = job["spec"]["template"]
    assert daemon_set["spec"]["selector"]["matchLabels"] == daemon_set["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"] == template["metadata"]["labels"] and service["spec"]["clusterIP"] == "None"
    assert template["spec"]["subdomain"] == service["metadata"]["name"]
    apart, = template["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert apart["labelSelector"]["matchLabels"] == template["metadata"]["labels"]
    assert job["spec"]["completionMode"] == "Indexed" and job["spec"]["completions"] == job["spec"]["parallelism"] == 2


# -------------------------------------------------------------------------------- what runs


# A container: directories of the host, bound over empty ones, and a hosts file; then the command.
CONTAINER = """
hosts=$1; shift
for empty in /var/lib /run; do mount -t tmpfs tmpfs $empty; done
for layer in /etc /usr/lib; do
	mkdir -p /run/layers$layer/upper /run/layers$layer/work
	mount -t overlay -o lowerdir=$layer,upperdir=/run/layers$layer/upper,workdir=/run/layers$layer/work overlay $layer
done
cp "$hosts" /etc/hosts
while [ "$1" != -- ]; do
	if [ -d "$1" ]; then mkdir -p "$2"; else mkdir -p "${2%/*}"; : >"$2"; fi
	mount --bind "$1" "$2"; shift 2
done
shift
exec "$@"
"""


def overlays_can_be_had():
    command = ["unshare", "-Urm", "sh", "-ec", "mount -t tmpfs tmpfs /run; mkdir /run/u /run/w; mount -t overlay -o "
               "lowerdir=/etc,upperdir=/run/u,workdir=/run/w overlay /etc; mount -t tmpfs tmpfs /var/lib"]
    return shutil.which("unshare") and not subprocess.run(command, check=False, capture_output=True).returncode


class Node:
    """Its file system, its kubelet, the pod of the DaemonSet, and what else runs there."""

    def __init__(self, directory, namespaces, hosts):
        self.root = directory
        self.namespaces = namespaces  # of the DaemonSet's pod, and of the other one
        self.hosts = hosts
        self.plugins = self.root / "var/lib/kubelet/device-plugins"
        self.plugins.mkdir(parents=True)
        for each in "var/lib/simhca", "var/run/cdi":  # DirectoryOrCreate
            (self.root / each).mkdir(parents=True)
        self.kubelet = Kubelet(self.plugins)

    def container(self, stack, pid, mounts):
        """mounts: [(path of the host, path in the container)]"""
        env = clean_environment() | {"PATH": f"{SIMHCA.parent}:{os.environ['PATH']}"}
        binds = [word for host, there in mounts for word in (f"{self.root}{host}", there)]
        launcher = Launcher([*inside(pid), "unshare", "-m", "sh", "-euc", CONTAINER, "sh", str(self.hosts), *binds, "--"], env)
        stack.callback(launcher.kill_programs)
        return launcher

    def start(self, stack, pod):
        """As kubelet does with a pod of the DaemonSet: containers that initialize, to their end, and then the others."""
        volumes = {volume["name"]: volume["hostPath"]["path"] for volume in pod["volumes"]}
        stack.enter_context(self.kubelet)
        self.running = {}
        for container in pod["initContainers"] + pod["containers"]:
            launcher = self.container(stack, self.namespaces[0], [
                (volumes[mount["name"]], mount["mountPath"]) for mount in container["volumeMounts"]])
            program = launcher.start(*container["command"], *container.get("args", []))
            if container in pod["initContainers"]:
                expect_success(program.finish())
            else:
                self.running[container["name"]] = program

    def is_ready(self):
        for name, program in self.running.items():
            assert program.running, (name, program.result())
        return self.kubelet.health() == "Healthy"

    def mounts_of(self, name):
        """What a container engine adds for a device that CDI has by this name."""
        for file in (self.root / "var/run/cdi").iterdir():
            description = json.loads(file.read_text())
            for device in description["devices"]:
                if f"{description['kind']}={device['name']}" == name:
                    return [(mount["hostPath"], mount["containerPath"]) for mount in device["containerEdits"]["mounts"]]
        raise AssertionError(f"{name}: CDI has no such device")

    def admit(self, stack, container):
        """A container of a pod that asks for devices."""
        count = container["resources"]["limits"]["rdma/simhca"]
        answer, = self.kubelet.allocate(list(self.kubelet.lists[-1])[:count])
        names = [fields(device)[1][0].decode() for device in answer[5]]
        return self.container(stack, self.namespaces[1], [mount for name in names for mount in self.mounts_of(name)])

    def tool(self, *arguments):
        launcher = Launcher(inside(self.namespaces[0]))
        return launcher.run(SIMHCA, *arguments, "--runtime-dir", self.root / "var/lib/simhca/run")


@contextlib.contextmanager
def two_nodes(names):
    """Each with two pods, which have networks of their own; the two that run the job know each other by name."""
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(new_host())
        pids = [first, *(stack.enter_context(another_host(first)) for _ in range(3))]
        join(*pids[:2], "eth0", MTU, [["10.99.0.1/24"], ["10.99.0.2/24"]])
        join(*pids[2:], "eth0", MTU, [["10.98.0.1/24"], ["10.98.0.2/24"]])
        directory = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="simhca-")))
        hosts = directory / "hosts"
        hosts.write_text("127.0.0.1 localhost\n" + "".join(f"10.98.0.{at} {name}\n" for at, name in enumerate(names, 1)))
        yield stack, [Node(directory / str(at), (pids[at], pids[at + 2]), hosts) for at in range(2)]


@pytest.mark.skipif(not namespaces_can_be_had() or not overlays_can_be_had(),
                    reason="no user namespaces, or no virtual Ethernet or overlays in them")
def test_job_of_two_pods(pod, job):
    """
    Their containers have nothing of simhca but what the device's name has added, and their messages go over the
    wire between the daemons of the nodes.
    """
    spec = job["spec"]["template"]["spec"]
    container, = spec["containers"]
    names = [f"{job['metadata']['name']}-{index}.{spec['subdomain']}" for index in range(2)]
    with two_nodes(names) as (stack, nodes):
        for node in nodes:
            node.start(stack, pod)
        for node in nodes:
            wait_until(node.is_ready, TIME_LIMIT, "the node offers the device")
        programs = [node.admit(stack, container).start(
            *container["command"], *container["args"], JOB_COMPLETION_INDEX=str(index))
            for index, node in enumerate(nodes)]
        for program in programs:
            result = expect_success(program.finish(TIME_LIMIT))
            assert "BW average" in result.stdout and "simhca0" in result.stdout, result
            assert "GID: 00:00:00:00:00:00:00:00:00:00:255:255:10:99:00:0" in result.stdout, result
        for node in nodes:
            result = expect_success(node.tool("wire", "--json"))
            assert json.loads(result.stdout)["taken"] > 100, result
