# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The preload library, and the programs that it is tried with: where they are, and a daemon that is none."""
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
