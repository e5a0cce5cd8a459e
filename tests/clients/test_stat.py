# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""`simhca stat` and `simhca top`: numbers, for people, in a pipe, in a terminal, for Prometheus."""
import json
import re
import signal
import subprocess

import pytest

from common import HERE, SIMHCA, Device, expect_success, wait_until

PYTHON = "/usr/bin/python3"


@pytest.fixture(scope="module")
def device():
    with Device("ethernet") as device:
        yield device


@pytest.fixture(scope="module")
def program(device):
    """
    Of seven sends to an SRQ five arrive, and two wait for receives (queues.py). The device carries
    them.
    """
    program = device.start(PYTHON, HERE / "queues.py", SIMHCA_CALLERS="off")
    wait_until(lambda: program.stdout.endswith("\n"), 20, "it has made its queues")
    truth = json.loads(program.stdout)
    wait_until(lambda: any("waits_for" in qp for qp in stat(device)["qps"]), 10, "it waits")
    yield truth
    program.kill()


def stat(device):
    return json.loads(expect_success(device.run(SIMHCA, "stat", "--json")).stdout)


def test_numbers(device, program):
    one, = stat(device)["programs"]
    assert one["pid"] == program["pid"] and one["qps"] == 2
    assert one["messages"] == one["received"] == 5 and one["bytes"] == one["received_bytes"] == 40
    assert one["rnr_naks"] == one["no_receive"] >= 1 and one["rnr_delay_ns"] > 0
    assert not one["errors"] and not one["retries"]
    latency = one["latency_ns"]
    assert 0 < latency["p50"] <= latency["p90"] <= latency["p99"] <= latency["max"]


def test_times_of_what_programs_carry():
    """Of what the device does not carry there are times as well."""
    with Device("ethernet") as device:
        program = device.start(PYTHON, HERE / "queues.py")
        wait_until(lambda: program.stdout.endswith("\n"), 20, "it has made its queues")
        wait_until(lambda: sum(qp["messages"] for qp in stat(device)["qps"]) == 5, 10, "five have arrived")
        one, = stat(device)["programs"]
        assert one["by_caller"] > 0
        timed = [qp for qp in stat(device)["qps"] if qp["by_caller"]]
        assert all(qp["latency_ns"]["p50"] > 0 for qp in timed)
        text = expect_success(device.run(SIMHCA, "stat", "--prometheus")).stdout
        assert re.search(r"^simhca_latency_seconds_count\{.*\} 5$", text, re.M)
        program.kill()


def test_who_waits_for_whom(device, program):
    text = expect_success(device.run(SIMHCA, "stat")).stdout
    me = rf"python3\[{program['pid']}\], QP 0x"
    numbers = [f"{qpn:06x}" for qpn in program["qps"]]
    assert re.search(rf"^{me}{numbers[0]} waits for a receive of {me}{numbers[1]}; posted: 2$", text,
                     re.M)
    assert "QUEUE PAIR" not in text
    assert "QUEUE PAIR" in expect_success(device.run(SIMHCA, "stat", "--qps")).stdout


def test_prometheus(device, program):
    """Each metric has its help and its type before its samples, and labels are quoted."""
    types, values = {}, {}
    for line in expect_success(device.run(SIMHCA, "stat", "--prometheus")).stdout.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            assert types.setdefault(name, kind) == kind
            continue
        if line.startswith("# HELP "):
            continue
        name, labels, value = re.fullmatch(r'(\w+)(\{(?:\w+="[^"\\]*",?)+\})? ([0-9.e+-]+)',
                                           line).groups()
        base = re.sub("_(bucket|sum|count)$", "", name) if "latency" in name else name
        assert base in types
        values.setdefault(name, []).append((labels, float(value)))
    (labels, sent), = values["simhca_messages_total"]
    assert sent == 5 and f'pid="{program["pid"]}"' in labels and 'device="simhca0"' in labels
    buckets = [value for _, value in values["simhca_latency_seconds_bucket"]]
    assert buckets == sorted(buckets)
    assert buckets[-1] == values["simhca_latency_seconds_count"][0][1] == 5
    assert values["simhca_queue_pairs"][0][1] == 2
    assert types["simhca_latency_seconds"] == "histogram"


def test_top_counts_what_happens_meanwhile(device, program):
    lines = expect_success(device.run(SIMHCA, "top", "--json", "-n", "2", "-d", "0.3")).stdout
    for line in map(json.loads, lines.splitlines()):
        one, = line["programs"]
        assert one["messages"] == 0 and one["latency_ns"]["max"] == 0  # it only waits
        assert one["rnr_naks"] > 0 and line["seconds"] > 0.25
    assert len(lines.splitlines()) == 2


def test_top_in_a_pipe(device, program):
    """Without a terminal there are tables; it ends in peace with who reads them."""
    text = expect_success(device.run(SIMHCA, "top", "-n", "2", "-d", "0.1")).stdout
    assert text.count("PROGRAM ") == 2 and "\x1b" not in text
    top = subprocess.Popen([SIMHCA, "top", "-d", "0.05"], env=device.tool.env, text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert top.stdout.readline().startswith("engine 0: ")
    top.send_signal(signal.SIGINT)
    assert top.communicate(timeout=20)[1] == "" and top.returncode == 0


class Terminal:
    """What is on the screen of a tmux of our own."""

    def __init__(self, device, *command):
        self.socket = device.new_directory() / "tmux"
        self.env = device.tool.env | {"LC_ALL": "C.UTF-8", "TERM": "xterm"}
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", "130", "-y", "30", *command)

    def tmux(self, *words):
        return subprocess.run(["tmux", "-S", self.socket, *words], env=self.env, text=True,
                              capture_output=True, timeout=20)

    @property
    def text(self):
        return self.tmux("capture-pane", "-p").stdout


def test_top_in_a_terminal(device, program):
    """A page that is drawn anew, and two keys."""
    terminal = Terminal(device, f"{SIMHCA} top -d 0.2; echo status $?; exec sleep 60")
    try:
        wait_until(lambda: f"python3[{program['pid']}] simhca0, 2 QPs" in terminal.text, 20,
                   "it shows the program")
        assert terminal.text.count("PROGRAM ") == 1
        terminal.tmux("send-keys", "p")
        wait_until(lambda: "QUEUE PAIR " in terminal.text, 20, "it shows queue pairs")
        terminal.tmux("resize-window", "-x", "60", "-y", "10")
        wait_until(lambda: "PROGRAM " in terminal.text, 20, "it fits in less")
        terminal.tmux("send-keys", "q")
        wait_until(lambda: "status 0" in terminal.text, 20, "it has ended")
    finally:
        terminal.tmux("kill-server")
