# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The programs of tests/clients/common.py: what is ended with them, and what is not."""
import subprocess
import sys

import pytest

ALONE = ["unshare", "-Urpf", "--mount-proc"]  # nobody else takes a number there

# "others" is a group that a program has left; "reused" has its number, once nothing is left of it.
CASES = {
    "others": """
first = Program(["sh", "-c", "sleep 600 & echo $!"], os.environ)
other = first.finish().stdout.strip()
first.kill()
for _ in range(1000):
    status = pathlib.Path("/proc", other, "stat")
    if not status.exists() or status.read_text().split()[2] == "Z":
        sys.exit()
    time.sleep(0.01)
sys.exit("it runs on")
""",
    "reused": """
first = Program(["true"], os.environ)
first.finish()
pathlib.Path("/proc/sys/kernel/ns_last_pid").write_text(str(first.pid - 1))
other = Program(["sleep", "600"], os.environ)
assert other.pid == first.pid
first.kill()
time.sleep(0.1)
assert other.running
other.kill()
""",
}


@pytest.mark.skipif(subprocess.run([*ALONE, "true"], check=False, capture_output=True).returncode != 0,
                    reason="no pid namespace can be made here")
@pytest.mark.parametrize("case", CASES)
def test_what_ends_with_a_program(case):
    """Thousands are kept until a module of tests ends, and meanwhile all numbers may have been used again."""
    code = "import os, pathlib, sys, time\nfrom common import Program\n"
    subprocess.run([*ALONE, sys.executable, "-c", code + CASES[case]], check=True, timeout=60)
