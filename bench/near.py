# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
A hypervisor moves the CPUs of a virtual machine: a cache line goes from one to the other in 0.02 to 0.06 us while they share
a cache, and in 0.15 to 0.3 us while they do not. What is compared is measured while they are near.
"""
import subprocess
import time

NEAR_US = 0.1
PATIENCE_SECONDS = 60  # for all that is measured


class Near:
    """program: bench/reference.c, compiled."""

    def __init__(self, program):
        self.program = program
        self.patience = PATIENCE_SECONDS

    def is_near(self):
        """Whether they share a cache, or there is only one."""
        done = subprocess.run([self.program, "line"], stdout=subprocess.PIPE, timeout=60, check=True)
        return not done.stdout or float(done.stdout.split()[1]) < NEAR_US

    def measure(self, function, *arguments):
        """What that returns if they are near before it and after it; when patience is at its end, what it returns."""
        while True:
            began = time.monotonic()
            while self.patience > 0 and not self.is_near():
                time.sleep(0.5)
                self.patience -= 0.5
            value = function(*arguments)
            if self.patience <= 0 or self.is_near():
                return value
            self.patience -= time.monotonic() - began
