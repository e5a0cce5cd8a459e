# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Programs that attack a daemon, and an honest one beside them."""
import os
import select
import subprocess

from protocol import BUILD

# Seconds. A quiet machine needs a tenth of a second; one that is busy must not fail for that, and
# every attack here would go on for ten seconds and more.
BOUND = 1.2
ATTACK = 1.6  # seconds in which the neighbour has its rounds: more than BOUND


class Program:
    """One of this suite's, with verbs, on that daemon."""

    def __init__(self, daemon, *words, env=None):
        self.process = subprocess.Popen(
            [os.path.join(BUILD, "bin", "simhca"), "run", "--runtime-dir", daemon.directory, "--",
             os.path.join(BUILD, "tests", "hostile", "hostile-" + words[0]), *words[1:]],
            env={**os.environ, **(env or {})}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, start_new_session=True)

    def line(self, seconds=0):
        # Without a buffer, in which a second line would wait that select() does not see.
        assert select.select([self.process.stdout], [], [], 30 + seconds)[0], "the program stands still"
        return self.process.stdout.readline().decode()


class Neighbour(Program):
    def __init__(self, daemon, *words):
        super().__init__(daemon, "neighbour", *words)
        assert self.line() == "here\n", "no device before the attack"

    def leave(self):
        """How many rounds it had, and the worst one's seconds."""
        self.process.stdin.close()
        rounds, worst = self.line().split()
        assert self.process.wait(10) == 0
        return int(rounds), float(worst)
