# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""simhca env: variables that a shell, a Dockerfile and a program can read."""

import json
import os
import subprocess

import pytest


def evaluate(tool, **changes):
    """The variables after eval "$(simhca env)" in a shell."""
    script = 'eval "$("$0" env)" && exec env -0'
    output = subprocess.run(["sh", "-c", script, tool.path], env=tool.env(**changes), check=True,
                            capture_output=True, text=True, timeout=60).stdout
    return dict(item.split("=", 1) for item in output.split("\0") if item)


def test_shell(tool):
    variables = evaluate(tool)
    assert variables["SIMHCA_RUNTIME_DIR"] == str(tool.runtime)
    assert variables["LD_PRELOAD"] == str(tool.prefix / "lib" / "libsimhca-preload.so")
    assert variables["IBV_DRIVERS"] == str(tool.prefix / "lib" / "libsimhca")
    assert "RDMAV_DRIVERS" not in variables


def test_shell_quotes(tool):
    variables = evaluate(tool, SIMHCA_RUNTIME_DIR="/tmp/it's $HOME `x` \"y\"")
    assert variables["SIMHCA_RUNTIME_DIR"] == "/tmp/it's $HOME `x` \"y\""


def test_extends_what_is_there(tool):
    variables = evaluate(tool, IBV_DRIVERS="/a/b:mlx5", RDMAV_DRIVERS="hfi1",
                         LD_PRELOAD=tool.prefix / "lib" / ".." / "lib" / "libsimhca-preload.so")
    provider = str(tool.prefix / "lib" / "libsimhca")
    assert variables["IBV_DRIVERS"] == provider + ":/a/b:mlx5"
    assert variables["RDMAV_DRIVERS"] == provider + ":hfi1"
    first, second = variables["LD_PRELOAD"].split(":")
    assert first == str(tool.prefix / "lib" / "libsimhca-preload.so") and "lib/../lib" in second


def test_twice_is_once(tool):
    assert evaluate(tool, **{name: value for name, value in evaluate(tool).items()
                             if name in ("LD_PRELOAD", "IBV_DRIVERS")}) == evaluate(tool)


def test_json(tool):
    result = tool("env", "--format", "json")
    assert json.loads(result.stdout)["SIMHCA_RUNTIME_DIR"] == str(tool.runtime)


def test_env_file(tool):
    """Lines whose values are not quoted, and extend what is there."""
    lines = tool("env", "--format", "env-file", SIMHCA_RUNTIME_DIR="/tmp/it's \"y\"", IBV_DRIVERS="mlx5").stdout.splitlines()
    assert "SIMHCA_RUNTIME_DIR=/tmp/it's \"y\"" in lines
    assert f"IBV_DRIVERS={tool.prefix / 'lib' / 'libsimhca'}:mlx5" in lines


def test_docker(tool):
    """A Dockerfile is for another environment than this one."""
    result = tool("env", "--format", "docker", IBV_DRIVERS="mlx5", RDMAV_DRIVERS="mlx5")
    lines = result.stdout.splitlines()
    assert f'ENV SIMHCA_RUNTIME_DIR="{tool.runtime}"' in lines
    assert all(line.startswith("ENV ") for line in lines) and "mlx5" not in result.stdout


def test_preload_first(tool):
    library = tool.prefix / "lib" / "libsimhca-preload.so"
    result = tool("env", "--format", "json", SIMHCA_PRELOAD_FIRST="/lib/first.so")
    assert json.loads(result.stdout)["LD_PRELOAD"] == f"/lib/first.so:{library}"


@pytest.mark.parametrize("changes, directory", [
    ({"SIMHCA_RUNTIME_DIR": None, "XDG_RUNTIME_DIR": "/tmp"}, "/tmp/simhca"),
    ({"SIMHCA_RUNTIME_DIR": "rel/"}, os.getcwd() + "/rel"),
    ({"SIMHCA_RUNTIME_DIR": "/tmp/x", "XDG_RUNTIME_DIR": "/tmp"}, "/tmp/x"),
])
def test_runtime_directory(tool, changes, directory):
    assert json.loads(tool("env", "--format", "json", **changes).stdout)[
        "SIMHCA_RUNTIME_DIR"] == directory


def test_option_goes_before_environment(tool):
    output = tool("env", "--format", "json", "--runtime-dir", "/tmp/y").stdout
    assert json.loads(output)["SIMHCA_RUNTIME_DIR"] == "/tmp/y"
