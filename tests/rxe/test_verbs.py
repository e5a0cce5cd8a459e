# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
Linux's answers to what is wrong, and ours: each transition of a QP with each attribute added and left out, values out
of range, sizes, memory that cannot be registered, requests that are refused (answers.c). Where they differ, rxe lets
more pass than the specification or mlx5, lacks something, or has another status for the same.
"""
import base64
import gzip
import pathlib
import re

import pytest

from common import expect_success
from middleware import compiled

HERE = pathlib.Path(__file__).parent
CHUNK = 60000  # an argument has at most 128 KiB
LAX = "the specification and mlx5 have it refused: rxe does not look"

# What is asked, our answer, rxe's, and why: regular expressions.
DIFFERENCES = [
    (r".* pkey_index = 0x1", "EINVAL, RESET", "ok, INIT", "rxe has 64 P_Keys of 0xffff"),
    (r"[RU]C path_mtu = 0x0", "EINVAL, INIT", "ok, RTR", LAX),
    (r"[RU]C dest_qp_num = 0x1000000", "EINVAL, INIT", "ok, RTR", LAX),
    (r"[RU]C ah_attr.sl = 0x10", "EINVAL, INIT", "ok, RTR", LAX),
    (r"[RU]C ah_attr.grh.dgid.global = 0x0", "EINVAL, INIT", "ENETUNREACH, INIT", "Linux asks its table of routes"),
    (r"RC max_dest_rd_atomic = 0xff", "EINVAL, INIT", "ok, RTR", LAX),
    (r"RC min_rnr_timer = 0x20", "EINVAL, INIT", "ok, RTR", LAX),
    (r"RC (retry_cnt|rnr_retry) = 0x8", "EINVAL, RTR", "ok, RTS", LAX),
    (r"region of two pages, access 0x(40|100|200)", "ok", "EINVAL", "ON_DEMAND and FLUSH: rxe of 6.1 has neither"),
    (r"region of no bytes, at a page, .*", "ok", "EINVAL", "the specification allows it; lint tells (empty_region)"),
    (r"region (before|past), access 0x0", "EFAULT", "ok", "Linux before 6.2 pins what the program itself may not read"),
    (r".* (of no lkey|of an lkey of another PD)", "ok, local protection error, .*", "ok, local QP operation error, .*",
     "rxe has that status for what it finds before it sends"),
    (r"(SEND|WRITE.*) of 4 GiB - 1", "ok, local length error, nothing, ERR, RTS",
     "ok, local QP operation error, nothing, ERR, RTS", "likewise, and max_msg_sz is not looked at"),
    (r"(READ|FETCH_AND_ADD) of 4 GiB - 1", "ok, local length error, nothing, ERR, RTS",
     "ok, (remote access|local protection) error, .*", "likewise"),
    (r"SEND with a receive of 7 bytes", "ok, remote invalid request error, local length error, ERR, ERR",
     "ok, remote operation error, local QP operation error, ERR, ERR", "IBTA vol. 1, 9.7.4: an invalid request"),
    (r"WRITE_WITH_IMM to .*", "ok, remote access error, local access error, ERR, ERR",
     "ok, remote access error, remote access error, ERR, ERR", "the receive's side is the local one"),
    (r"FETCH_AND_ADD of [07] bytes", "ok, local length error, nothing, ERR, RTS", "EINVAL, , nothing, RTS, RTS",
     "rxe's provider looks; mlx5's does not"),
    (r"FETCH_AND_ADD to an odd address", "ok, remote invalid request error, .*, ERR, ERR",
     "EINVAL, , nothing, RTS, RTS", "likewise"),
]


def answers(result):
    """{what is asked: the answer}, all of them."""
    lines = expect_success(result).stdout.splitlines()
    assert lines[-1] == "end: ok", result
    return dict(line.split(": ", 1) for line in lines)


def as_known(question, here, rxe):
    """The numbers of those DIFFERENCES that say so."""
    return [number for number, row in enumerate(DIFFERENCES)
            if all(re.fullmatch(pattern, text) for pattern, text in zip(row, (question, here, rxe)))]


def test_answers(sides, image, tmp_path):
    """They are the same, but for those that are known; none of those is out of date."""
    if "trixie" in image.name:
        pytest.skip("what rxe answers is that of Linux 6.1; rxe of 6.12 flushes what it refuses to send")
    program = compiled(tmp_path, HERE / "answers.c", "-D_GNU_SOURCE", f"-I{HERE.parent / 'programs'}", "-libverbs")
    text = base64.b64encode(gzip.compress(program.read_bytes())).decode()
    guest = sides["rxe"]
    expect_success(guest.run("rm", "-f", "answers.text"))
    for at in range(0, len(text), CHUNK):
        expect_success(guest.run("sh", "-c", f"echo {text[at:at + CHUNK]} >>answers.text"))
    expect_success(guest.run("sh", "-ec", "base64 -d -i answers.text | gunzip >answers; chmod +x answers"))
    ours, rxes = answers(sides["ours"].run(program)), answers(guest.run("./answers", seconds=300))
    assert ours.keys() == rxes.keys()
    assert len(ours) > 3000
    used = set()
    for question, here in ours.items():
        known = as_known(question, here, rxes[question])
        assert known or here == rxes[question], (question, "here:", here, "rxe:", rxes[question])
        used |= set(known)
    assert len(used) == len(DIFFERENCES), [row for number, row in enumerate(DIFFERENCES) if number not in used]
