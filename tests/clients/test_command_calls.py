# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""What a command costs in system calls: the times of a busy machine say little, these say all."""
import platform
import re

import pytest

from common import expect_success
from middleware import HERE, compiled

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="makes system calls of x86-64")
SECONDS = 120


@pytest.fixture(scope="module")
def command_calls(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("commands"), HERE / "command_calls.c", "-D_GNU_SOURCE",
                    "-rdynamic", "-libverbs", "-pthread")


def test_one_call_each(device, command_calls):
    """The answer comes in memory: to send is all, and to sleep where the daemon is not there at once."""
    result = expect_success(device.run(command_calls, seconds=SECONDS))
    for verb in "create_ah", "destroy_ah":
        line = next(line for line in result.stdout.splitlines() if line.startswith(f"{verb}:"))
        count = {name: int(number) for name, number in re.findall(r"(\w+)=(\d+)", line)}
        assert count["sendmsg"] == count["commands"], line
        assert not count["recvmsg"] and not count["statx"] and not count["getpid"], line
        # Rarely a second time: it is looked whether the daemon is there.
        assert count["futex"] <= count["commands"] * 1.5, line
    assert "threads and a child: well" in result.stdout
