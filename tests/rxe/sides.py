# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""What is asked of either side: the daemon's namespace, or the guest."""
import namespaces


def listens(side, port):
    """Whether somebody there listens on a TCP port. In the guest, where Python is slow to start, ss(8) asks likewise."""
    if hasattr(side, "status"):
        return namespaces.listens(side, port)
    return bool(side.run("ss", "-Hltn", f"sport = :{port}").stdout)
