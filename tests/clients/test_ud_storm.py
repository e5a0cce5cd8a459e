# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
Datagrams among many processes on few CPUs: whole, once, in order, and buffers are the program's own
again when a completion says so. SIMHCA_SOAK=1 makes a second a minute.
"""
import os
import pathlib
import subprocess

import pytest

from common import TIME_LIMIT, Device, expect_success

SECONDS = 60 if os.environ.get("SIMHCA_SOAK") == "1" else 1
PAIRS = 4
SOURCE = pathlib.Path(__file__).with_name("ud_storm.c")


@pytest.fixture(scope="module")
def ud_storm(tmp_path_factory):
    program = tmp_path_factory.mktemp("storm") / "ud_storm"
    subprocess.run(["cc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O2", SOURCE, "-o", program,
                    "-libverbs"], check=True)
    return program


@pytest.mark.pairs("link_layer", "engines", "memory")
@pytest.mark.parametrize("memory", ["process_vm", "agent"])
@pytest.mark.parametrize("engines", [1, 2])
def test_storm(ud_storm, link_layer, engines, memory):
    with Device(link_layer, "--engines", engines, "--memory", memory) as device:
        programs = [device.start(ud_storm, SECONDS) for _ in range(PAIRS)]
        for program in programs:
            expect_success(program.finish(SECONDS + TIME_LIMIT))
        device.expect_idle()
