# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Programs with and without the preload library, on a fake device tree."""
import contextlib
import os
import pathlib
import subprocess
import tempfile

import pytest


BUILD = os.path.abspath(os.environ["SIMHCA_BUILD"])
# What ctest says, or where the build has it.
PLACES = {"SIMHCA_PRELOAD": os.path.join(BUILD, "lib", "libsimhca-preload.so"),
          "SIMHCA_PRELOAD_PROGRAMS": os.path.join(BUILD, "tests", "preload")}


def need(variable):
    place = os.environ.get(variable, PLACES[variable])
    if not os.path.exists(place):
        pytest.skip(f"{place} has not been built")
    return place


def program(name):
    return os.path.join(need("SIMHCA_PRELOAD_PROGRAMS"), "preload-" + name)


def clean_environment():
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(("SIMHCA_", "ASAN_", "LD_PRELOAD"))}
    return env | {"LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}


@contextlib.contextmanager
def fake_daemon(*device):
    """A runtime directory that a fake daemon serves."""
    # Not pytest's tmp_path: the name of a socket is limited to 107 bytes.
    with tempfile.TemporaryDirectory(prefix="simhca-preload-") as directory:
        with subprocess.Popen([program("fake-daemon"), directory, *device], stdout=subprocess.PIPE,
                              text=True, env=clean_environment()) as daemon:
            try:
                assert daemon.stdout.readline() == "ready\n"
                yield pathlib.Path(directory)
            finally:
                daemon.kill()


@pytest.fixture(scope="session")
def runtime_dir():
    with fake_daemon() as directory:
        yield directory


@pytest.fixture
def preloaded(runtime_dir):
    """The environment of a program that sees the device."""
    return clean_environment() | {"LD_PRELOAD": need("SIMHCA_PRELOAD"),
                                  "SIMHCA_RUNTIME_DIR": str(runtime_dir)}


@pytest.fixture
def run(preloaded):
    def run(*argv, **env):
        return subprocess.run(argv, env=preloaded | env, capture_output=True, text=True,
                              timeout=60, stdin=subprocess.DEVNULL, check=False)
    return run
