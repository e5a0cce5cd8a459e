# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""This program and one that it has forked, which tell each other what they want in JSON."""
import json
import os
import signal
import subprocess

from programs import SIMHCA


class Other:
    """The other one; `child`: we are the first, and this is its process."""

    def __init__(self, seconds):
        to_parent, to_child = os.pipe(), os.pipe()
        self.child = os.fork()
        signal.alarm(seconds)
        for end in (to_parent[1], to_child[0]) if self.child else (to_child[1], to_parent[0]):
            os.close(end)
        self.reader = os.fdopen((to_parent if self.child else to_child)[0], 'r')
        self.writer = os.fdopen((to_child if self.child else to_parent)[1], 'w')

    def tell(self, **what):
        self.writer.write(json.dumps(what) + '\n')
        self.writer.flush()

    def hear(self):
        return json.loads(self.reader.readline())


def show(what):
    """What `simhca qp`, or another of its kind, says."""
    return json.loads(subprocess.run([SIMHCA, what, '--json'], text=True, capture_output=True,
                                     check=True).stdout)
