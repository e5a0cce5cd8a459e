# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
A hypervisor moves the CPUs of a virtual machine: a cache line goes from one to the other in 0.02 to 0.06 us while they share
a cache, and in 0.15 to 0.3 us while they do not. What is compared is measured while they are near.
"""
import subprocess
import time

NEAR_US = 0.1
WAIT_SECONDS = 60  # in all, for CPUs to be near


class Near:
    """program: bench/reference.c, compiled."""

    def __init__(self, program):
        self.program = program
        self.seconds_left = WAIT_SECONDS

    def is_near(self):
        """Whether they share a cache, or there is only one."""
        done = subprocess.run([self.program, "line"], stdout=subprocess.PIPE, timeout=60, check=True)
        return not done.stdout or float(done.stdout.split()[1]) < NEAR_US

    def measure(self, function, *arguments):
        """What the function returns: it is called until they are near before and after, or no seconds are left."""
        while True:
            began = time.monotonic()
            while self.seconds_left > 0 and not self.is_near():
                time.sleep(0.5)
                self.seconds_left -= 0.5
            value = function(*arguments)
            if self.seconds_left <= 0 or self.is_near():
                return value
            self.seconds_left -= time.monotonic() - began
