# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""bash completion of simhca: what bash would offer for a word."""

import pathlib
import subprocess

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "tools" / "simhca.bash-completion"


def offered(tool, *words):
    """For the last of these words."""
    script = ('. "$0"; tool=$1; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1));'
              '_simhca "$tool"; printf "%s\\n" "${COMPREPLY[@]}"')
    return subprocess.run(["bash", "--norc", "-c", script, SCRIPT, tool.path, "simhca", *words],
                          env=tool.env(), capture_output=True, text=True, check=True,
                          timeout=60).stdout.split()


def test_subcommands(tool):
    assert offered(tool, "st") == ["start", "stop", "status", "stat"]
    assert "run" in offered(tool, "") and "--version" in offered(tool, "--")


def test_options_are_those_of_the_subcommand(tool):
    assert "--private" in offered(tool, "run", "--p")
    assert offered(tool, "start", "--p") == []
    assert offered(tool, "status", "--j") == ["--json"]
    assert offered(tool, "top", "--b") == ["--batch"]
    assert offered(tool, "top", "--delay", "") == []


@pytest.mark.parametrize("option, part, values", [
    ("--link-layer", "", ["ethernet", "ib"]),
    ("--memory", "p", ["process_vm"]),
    ("--mtu", "2", ["256", "2048"]),
    ("--engines", "", []),
    ("--interface", "l", ["lo"]),
])
def test_values(tool, option, part, values):
    assert offered(tool, "run", option, part) == values


def test_format(tool):
    assert offered(tool, "env", "--format", "d") == ["docker"]


def test_sort(tool):
    """What is offered is what is taken."""
    offers = offered(tool, "top", "--sort", "")
    assert "p99" in offers and offered(tool, "stat", "--sort", "by") == ["bytes"]
    for column in offers:  # a wrong one is told before that no daemon runs
        assert tool("stat", "--sort", column).returncode == 1


def test_files(tool):
    assert offered(tool, "run", "--config", "/etc/os-rel") == ["/etc/os-release"]
    assert offered(tool, "stop", "--runtime-dir", "/us") == ["/usr"]
    assert offered(tool, "run", "--inject", "/etc/os-rel") == ["/etc/os-release"]


def test_inject(tool):
    assert offered(tool, "inject", "") == ["add", "list", "clear", "replay"]
    assert offered(tool, "inject", "--runtime-dir", "/tmp", "cl") == ["clear"]
    assert offered(tool, "inject", "add", "/etc/os-rel") == ["/etc/os-release"]
    assert "--json" in offered(tool, "inject", "--")


@pytest.mark.parametrize("before", [["--"], [], ["--private", "--mtu", "512"], ["--mtu=512", "--"]])
def test_command_and_its_arguments(tool, before):
    assert "printf" in offered(tool, "run", *before, "print")
    assert offered(tool, "run", *before, "cat", "/etc/os-rel") == ["/etc/os-release"]
    assert offered(tool, "run", *before, "cat", "--private", "--p") == []


def test_unknown_subcommand(tool):
    assert offered(tool, "nothing", "--") == []
