# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Gloo's own ibverbs transport, which PyTorch's collectives can use: an all-reduce, checked."""
import pytest

from common import expect_success
from middleware import compiled


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("gloo"), "gloo_allreduce.cc", "-lgloo", compiler="c++")


@pytest.mark.parametrize("ranks", [2, 4])
def test_allreduce(device, program, tmp_path, ranks):
    result = expect_success(device.run(program, tmp_path, ranks))
    assert result.stdout == f"{ranks} ranks\n", result
