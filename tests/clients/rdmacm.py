# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""What the tests of programs that connect by rdma_cm share."""
import json
import re

from common import TIME_LIMIT, SIMHCA, expect_success, wait_until


DEFAULT_PORT = {"rping": 7174, "ucmatose": 7471, "udaddy": 7174}


def ids(device):
    """What `simhca cm` lists."""
    return json.loads(expect_success(device.tool.run(SIMHCA, "cm", "--json")).stdout)


def listens(device, port):
    return any(one["state"] == "LISTEN" and one["src"].endswith(f":{port}") for one in ids(device))


def start_listener(device, port, *argv, **env):
    """A server that listens on a port of rdma_cm."""
    server = device.start(*argv, **env)
    wait_until(lambda: listens(device, port) or not server.running, TIME_LIMIT, f"{argv} listens")
    assert server.running, server.result()
    return server


def expect_ending(result):
    """
    It ended well. rping destroys its event channel while a thread of its own may be on the way back to it, from
    the event that it is disconnected, or still from the one that it is connected, as it does not wait for the former:
    on a busy machine, with any device, that thread ends the program as if something had failed, after all.
    """
    late = re.search(r"(^|DISCONNECT EVENT\.\.\.\n)rdma_get_cm_event: Bad file descriptor\n$", result.stderr)
    return result if "rping" in result.argv and result.status == 255 and late else expect_success(result)


def run_both(device, port, server, client, **env):
    """A server and its client, both to a good end; what they printed, server first."""
    listener = start_listener(device, port, *server, **env)
    result = expect_ending(device.run(*client, **env))
    return expect_ending(listener.finish()), result


def expect_no_ids(device):
    """No id and no channel is left of the programs that have run."""
    wait_until(lambda: not ids(device), 10, "ids are gone")
    counts = device.status()["rdma_cm"]
    assert counts["channels"] == counts["ids"] == counts["events"] == 0, counts
