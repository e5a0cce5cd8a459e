# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
Programs that have libibverbs and simhca's provider linked in, and no way to load anything: on a device that simhca run
shows by answering their system calls. With SIMHCA_RDMA_CORE, a git repository of rdma-core, ibv_rc_pingpong is one of them.
"""
import os
import pathlib
import re
import subprocess
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("SIMHCA_BUILD", ROOT / "build")).resolve()
SOURCES = os.environ.get("SIMHCA_RDMA_CORE")
# As rdma-core's own build finds of a compiler.
CONFIG = "#define _GNU_SOURCE 1\n#define HAVE_TYPEOF 1\n#define HAVE_STATEMENT_EXPR 1\n#define HAVE_BUILTIN_TYPES_COMPATIBLE_P 1\n"
PAIR = '"$0" -g 0 & until "$0" -g 0 localhost; do kill -0 $! || exit; done; wait'

pytestmark = pytest.mark.skipif(os.environ.get("SIMHCA_PACKAGES") == "short",
                                reason="in the long form only: scripts/test packages")


def run(*command, timeout=600, check=True):
    done = subprocess.run([*map(str, command)], text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=timeout, check=False)
    assert not check or done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout[-5000:]}"
    return done.stdout


def pkg_config(*arguments):
    return run("pkg-config", *arguments).split()


def compile_static(program, *arguments):
    run("gcc", "-O1", "-w", "-static", "-o", program, *arguments, *pkg_config("--static", "--libs", "libibverbs"))
    assert "INTERP" not in run("readelf", "-lW", program)
    return program


@pytest.fixture(scope="module")
def provider():
    run("cmake", "--build", BUILD, "--target", "static-provider")
    library, = BUILD.glob("lib/libsimhca-rdmav*.a")
    return "-Wl,-u,verbs_provider_simhca", library


AS_NOBODY = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "env", "HOME=/nonexistent", "TMPDIR=/tmp",
             "XDG_RUNTIME_DIR="]
IN_BUBBLEWRAP = ["bwrap", "--dev-bind", "/", "/", "--tmpfs", "/run", "--proc", "/proc", "--unshare-pid"]


def simhca_run(*command, prefix=()):
    return run(*prefix, BUILD / "bin/simhca", "run", "--private", "--show", "seccomp", "--", *command)


def test_names(provider):
    """Nothing of it but its own interface can meet a program's names."""
    shown = re.findall(r"^[0-9a-f]+ [A-Z] (\S+)$", run("nm", "--defined-only", "--extern-only", provider[1]), re.M)
    assert "verbs_provider_simhca" in shown and len(shown) > 10
    assert not [name for name in shown if not name.startswith("simhcadv_") and name != "verbs_provider_simhca"]


def test_verbs(provider, tmp_path):
    """One that uses extended QPs, windows and fast registration, with a QP that sends to itself."""
    program = compile_static(tmp_path / "qp_ex", f"-I{ROOT}/kernel-abi", f"-I{BUILD}/include",
                             ROOT / "tests/programs/qp_ex.c", *provider)
    simhca_run(program)


@pytest.fixture(scope="module")
def pingpong(tmp_path_factory):
    """The arguments that compile ibv_rc_pingpong, of the release that is installed."""
    if not SOURCES:
        pytest.skip("in the long form only, where SIMHCA_RDMA_CORE names a repository of rdma-core")
    directory = tmp_path_factory.mktemp("rdma-core")
    tag = f"v{pkg_config('--modversion', 'libibverbs')[0].split('.')[2]}.0"
    run("sh", "-c", 'git -C "$1" archive "$2" ccan libibverbs/examples | tar -x -C "$3"', "sh", SOURCES, tag, directory)
    (directory / "config.h").write_text(CONFIG)
    examples = directory / "libibverbs/examples"
    return f"-I{directory}", examples / "rc_pingpong.c", examples / "pingpong.c"


@pytest.mark.parametrize("who", ["root", "nobody", "in bubblewrap"])
def test_ibv_rc_pingpong(provider, pingpong, who):
    """Also where no process but its own is to be seen; as a user, who has set no_new_privs by that."""
    if who == "nobody" and os.geteuid():
        pytest.skip("only root can become nobody")
    with tempfile.TemporaryDirectory(prefix="simhca-") as directory:
        os.chmod(directory, 0o755)
        program = compile_static(pathlib.Path(directory, "pingpong"), *pingpong, *provider)
        sandbox = IN_BUBBLEWRAP if who == "in bubblewrap" else []
        said = simhca_run(*sandbox, "sh", "-c", PAIR, program, prefix=AS_NOBODY if who == "nobody" else [])
    assert said.count("1000 iters in") == 2


def test_no_provider(pingpong, tmp_path):
    """With libibverbs' own alone it sees the device, and has no driver for it."""
    program = compile_static(tmp_path / "pingpong", *pingpong)
    assert "No IB devices found" in run(BUILD / "bin/simhca", "run", "--private", "--show", "seccomp", "--", program, check=False)
