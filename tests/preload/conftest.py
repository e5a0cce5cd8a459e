# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Programs with and without the preload library, on a fake device tree."""
import pytest

from fakes import clean_environment, fake_daemon, need


@pytest.fixture(scope="session")
def runtime_dir():
    with fake_daemon() as directory:
        yield directory


@pytest.fixture
def preloaded(runtime_dir):
    """The environment of a program that sees the device."""
    return clean_environment() | {"LD_PRELOAD": need("SIMHCA_PRELOAD"),
                                  "SIMHCA_RUNTIME_DIR": str(runtime_dir)}
