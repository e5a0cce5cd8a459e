# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""A daemon for tests, and the directory that it has. $SIMHCAD is the program."""
import shutil
import tempfile

import pytest

from protocol import daemons


@pytest.fixture
def directory():
    path = tempfile.mkdtemp(prefix="simhcad-")
    yield path
    shutil.rmtree(path)


@pytest.fixture
def start(directory):
    with daemons(directory) as start:
        yield start


@pytest.fixture
def daemon(start):
    daemon = start()
    assert daemon.is_ready
    return daemon
