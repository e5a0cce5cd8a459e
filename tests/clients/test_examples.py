# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
What examples/two-hosts has two containers, pods and CI jobs run, in two network namespaces: their
commands as they stand there, with eth0 as the interface and "server" as the other one's name.
"""
import contextlib
import os
import pathlib
import tempfile

import pytest
import yaml

from common import TIME_LIMIT, SIMHCA, Launcher, clean_environment, expect_success
from namespaces import IPV4, another_host, inside, join, namespaces_can_be_had, new_host

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples" / "two-hosts"
MTU = 1500

pytestmark = pytest.mark.skipif(not namespaces_can_be_had(),
                                reason="no user namespaces, or no virtual Ethernet in them")


@contextlib.contextmanager
def hosts(names):
    """
    {name: a launcher in a host of its own}, each of which knows the others by name, and has an
    installed simhca with a runtime directory of its own.
    """
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(new_host())
        pids = [first, stack.enter_context(another_host(first))]
        join(*pids, "eth0", MTU, [[f"{address}/24"] for address in IPV4])
        directory = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="simhca-")))
        known = directory / "hosts"
        known.write_text("".join(f"{address} {name}\n" for address, name in zip(IPV4, names)))
        launchers = {}
        for name, pid in zip(names, pids):
            env = clean_environment() | {"PATH": f"{SIMHCA.parent}:{os.environ['PATH']}",
                                         "SIMHCA_RUNTIME_DIR": str(directory / name)}
            prefix = ["unshare", "-m", "sh", "-c",
                      f"mount --bind {known} /etc/hosts && exec \"$@\"", "sh"]
            launchers[name] = Launcher([*inside(pid), *prefix], env)
            stack.callback(launchers[name].kill_programs)
        yield launchers


def documents(name):
    return list(yaml.safe_load_all((EXAMPLES / name).read_text()))


def containers():
    """Of the compose file: name, command, variables."""
    (compose,) = documents("compose.yaml")
    for name, service in compose["services"].items():
        assert service["image"] == "simhca"
        yield name, service["entrypoint"] + service["command"], {}


def pods():
    """A pod's `command` takes the place of the image's entry point; the service names one of them."""
    service, *rest = documents("pods.yaml")
    assert service["kind"] == "Service" and service["spec"]["clusterIP"] == "None"
    for pod in rest:
        (container,) = pod["spec"]["containers"]
        name = pod["metadata"]["name"]
        labels = pod["metadata"].get("labels", {})
        assert (labels == service["spec"]["selector"]) == (name == service["metadata"]["name"])
        yield name, container["command"] + container["args"], {}


def jobs():
    """A step is a script, run as GitHub runs it."""
    (workflow,) = documents("github.yml")
    for name, job in workflow["jobs"].items():
        (step,) = job["steps"]
        yield name, ["sh", "-e", "-c", step["run"]], workflow["env"]


@pytest.mark.parametrize("example", [containers, pods, jobs])
def test_two_hosts(example):
    """Both end, and have had the other one's messages."""
    programs = {name: (command, variables) for name, command, variables in example()}
    assert set(programs) == {"server", "client"}
    with hosts(programs) as launchers:
        running = [launchers[name].start(*command, **variables)
                   for name, (command, variables) in programs.items()]
        for program in running:
            result = expect_success(program.finish(TIME_LIMIT))
            assert "8192000 bytes in" in result.stdout and "GID ::ffff:" in result.stdout, result
