# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""`simhca qp`, `cq`, `srq` and `mr`: what waits in queues, and for what."""
import json
import os
import pathlib

import pytest

from common import HERE, SIMHCA, Device, expect_success, wait_until

PYTHON = "/usr/bin/python3"


@pytest.fixture(scope="module")
def device():
    with Device("ethernet") as device:
        yield device


def show(device, what):
    return json.loads(expect_success(device.run(SIMHCA, what, "--json")).stdout)


def test_queues(device):
    assert show(device, "cq") == show(device, "srq") == []
    program = device.start(PYTHON, HERE / "queues.py")
    wait_until(lambda: program.stdout.endswith("\n"), 20, "it has made them")
    truth = json.loads(program.stdout)

    def sender():
        return next(qp for qp in show(device, "qp") if qp["lqpn"] == truth["qps"][0])

    # Five are done, two wait for receives.
    wait_until(lambda: sender()["sends"] == 2 and sender()["waits_for"] == "rnr", 10,
               "the sender waits for receives")
    assert sender()["recvs"] == 3
    cqs = show(device, "cq")
    assert {cq["pid"] for cq in cqs} == {truth["pid"]}
    big, small = sorted(cqs, key=lambda cq: -cq["cqe"])
    assert big["cqe"] >= 50 and big["waiting"] == 5 and big["armed"] == "solicited"
    assert small["waiting"] == 4 and small["armed"] == "no"
    assert big["channel"] and not small["channel"] and not big["overrun"]
    srq, = show(device, "srq")
    assert srq["posted"] == 0 and srq["max_wr"] >= 16 and srq["users"] == 1
    program.kill()


def table(device, *words):
    """What a subcommand prints, as a list of {head: cell}."""
    heads, *rows = (line.split() for line in expect_success(device.run(SIMHCA, *words)).stdout.splitlines())
    assert all(len(row) == len(heads) for row in rows), (heads, rows)
    return [dict(zip(heads, row)) for row in rows]


def test_tables(device):
    """Each object is a row; numbers of QPs and keys are as verbs programs print them. -x has all."""
    program = device.start(PYTHON, HERE / "queues.py")
    wait_until(lambda: program.stdout.endswith("\n"), 20, "it has made them")
    truth = json.loads(program.stdout)
    first, second = (f"0x{qpn:06x}" for qpn in truth["qps"])
    wait_until(lambda: any(qp["WAITS"] == "rnr" for qp in table(device, "qp")), 10, "it waits")
    shown = {qp["QPN"]: qp for qp in table(device, "qp")}
    assert shown.keys() == {first, second} and shown[first]["DEST"] == second
    assert [shown[first][head] for head in ("DEVICE", "TYPE", "STATE", "SENDS", "RECVS", "PID", "PROGRAM")] == \
        ["simhca0", "RC", "RTS", "2", "3", str(truth["pid"]), "python3"]
    mr, = table(device, "mr")
    key = f"{show(device, 'mr')[0]['lkey']:#x}"
    assert [mr[head] for head in ("LKEY", "RKEY", "LENGTH", "ACCESS")] == [key, key, "64", "0x1"]
    srq, = table(device, "srq")
    assert [srq[head] for head in ("TYPE", "SIZE", "POSTED", "USERS")] == ["BASIC", "16", "0", "1"]
    cq, = (cq for cq in table(device, "cq") if cq["WAITING"] == "5")
    assert [cq[head] for head in ("ARMED", "OVERRUN", "PID")] == ["solicited", "no", str(truth["pid"])]

    for what, more in {"qp": ["FASTPATH", "FAULTS"], "cq": ["CHANNEL", "USERS"], "srq": ["PD"], "mr": ["MAPPABLE", "PAGING"]}.items():
        plain, extended = table(device, what), table(device, what, "-x")
        assert table(device, what, "--extended") == extended
        for short, long in zip(plain, extended):
            assert short.items() < long.items() and long.keys() - short.keys() >= set(more)
        assert max(map(len, expect_success(device.run(SIMHCA, what)).stdout.splitlines())) <= 80
    carried = {qp["QPN"]: qp["FASTPATH"] for qp in table(device, "qp", "-x")}
    assert "messages=5" in carried[first].split(",") and carried[second] == "-"
    channel, = (cq["CHANNEL"] for cq in table(device, "cq", "-x") if cq["CHANNEL"] != "0")
    assert any(os.readlink(fd).endswith(f"[{channel}]") or str(os.stat(fd).st_ino) == channel
               for fd in pathlib.Path(f"/proc/{truth['pid']}/fd").iterdir())
    program.kill()
