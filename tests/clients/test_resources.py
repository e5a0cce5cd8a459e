# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""`simhca cq`, `srq` and `qp`: what waits in queues, and for what."""
import json

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
    line, = expect_success(device.run(SIMHCA, "srq")).stdout.splitlines()
    assert " type BASIC " in line and f" pid {truth['pid']} comm python3" in line
    lines = expect_success(device.run(SIMHCA, "cq")).stdout.splitlines()
    assert sum(" waiting 5 armed solicited " in line for line in lines) == 1
    program.kill()
