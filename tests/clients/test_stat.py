# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""`simhca stat` and `simhca top`: numbers, for people, in a pipe, in a terminal, for Prometheus."""
import json
import re
import signal
import subprocess

import pytest

from common import HERE, SIMHCA, Device, expect_success, new_port, wait_until

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
    program = device.start(PYTHON, HERE / "queues.py", SIMHCA_FAST_PATH="off")
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
        assert one["by_fast_path"] > 0
        timed = [qp for qp in stat(device)["qps"] if qp["by_fast_path"]]
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
    assert "QPN " not in text
    assert f"\n0x{numbers[0]} " in expect_success(device.run(SIMHCA, "stat", "--qps")).stdout


def bars(text):
    """A histogram: the longest time of each row, how many messages it counts, and its bar."""
    rows = re.findall(r"^ *([\d.]+)([num]?s) +(\d+) +([\d.]+)  \|(#*)$", text, re.M)
    unit = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}
    assert not rows or 99 < sum(float(share) for *_, share, _ in rows) < 101, text
    return [(float(time) * unit[u], int(count), len(bar)) for time, u, count, _, bar in rows]


def test_histogram(device, program):
    """How long its five messages took: of the program, of the QP that sent them, and in JSON."""
    text = expect_success(device.run(SIMHCA, "stat", "--histogram")).stdout
    assert re.match(rf"python3\[{program['pid']}\] simhca0: 5 messages timed; P50 \S+, P99 \S+, MAX \S+$", text, re.M)
    rows = bars(text)
    assert sum(count for _, count, _ in rows) == 5 and rows == sorted(rows) and len(rows) <= 20
    most = max(count for _, count, _ in rows)
    assert all(bar == 60 if count == most else bool(bar) == bool(count) for _, count, bar in rows), text

    sent, received = (f"QP 0x{qpn:06x} (RC): " for qpn in program["qps"])
    text = expect_success(device.run(SIMHCA, "stat", "--histogram", "--qps")).stdout
    assert sent + "5 messages timed; " in text and received + "no message was timed\n" in text
    assert bars(text) == rows

    seen = json.loads(expect_success(device.run(SIMHCA, "stat", "--histogram", "--json")).stdout)
    one, = seen["programs"]
    buckets = one["latency_histogram"]
    assert buckets == sorted(buckets) and sum(count for _, count in buckets) == 5
    assert buckets[-1][0] == one["latency_ns"]["max"] and min(count for _, count in buckets) > 0
    assert sorted(len(qp["latency_histogram"]) for qp in seen["qps"]) == [0, len(buckets)]
    assert "latency_histogram" not in stat(device)["programs"][0]


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
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", *command)

    def tmux(self, *words):
        return subprocess.run(["tmux", "-S", self.socket, *words], env=self.env, text=True,
                              capture_output=True, timeout=20)

    @property
    def text(self):
        return self.tmux("capture-pane", "-p").stdout


def test_top_in_a_terminal(device, program):
    """In 80 columns nothing is cut; keys change what is shown, and the page of help says which."""
    send = f"ib_send_lat -F -n 100000000 -p {new_port()}"
    talks = device.start("sh", "-c", f"{send} & "
                         f"until {send} localhost; do sleep 0.1; done")
    terminal = Terminal(device, f"{SIMHCA} top -d 0.2; echo status $?; exec sleep 60")

    def column(head):
        """Of the table of programs."""
        lines = terminal.text.splitlines()
        heads = next((line for line in lines if line.startswith("PROGRAM ")), "").split()
        rows = [line.split() for line in lines if re.match(r"(python3|ib_send_lat) +\d+ ", line)]
        return [row[heads.index(head)] for row in rows if len(row) == len(heads) and head in heads]

    try:
        wait_until(lambda: sum(time.endswith("s") for time in column("P99")) == 2, 60, "both ends have times")
        assert set(column("PID")[:2]) != {str(program["pid"])} and column("PID")[2] == str(program["pid"])
        assert column("RNR")[2] != "0" and len(column("MAX")) == 3
        assert re.search(r"^python3\[\d+\], QP 0x\w+ waits for\n    a receive of python3\[.*; posted: 2$", terminal.text, re.M)
        for key, says in ("h", "sort by the next column"), ("x", "sorted by msg;"), (">", "sorted by bytes;"), \
                ("<", "sorted by msg;"), ("<", "sorted by program;"), ("r", "sorted by program, reversed;"):
            terminal.tmux("send-keys", key)
            wait_until(lambda: says in terminal.text, 20, f"{key}: {says}")
        wait_until(lambda: column("PROGRAM") == ["python3", "ib_send_lat", "ib_send_lat"], 20, "it is sorted")
        terminal.tmux("send-keys", "p")
        wait_until(lambda: "QPN " in terminal.text, 20, "it shows queue pairs")
        terminal.tmux("resize-window", "-x", "45", "-y", "10")
        wait_until(lambda: column("P99") and "MAX" not in terminal.text, 20, "it leaves columns out")
        terminal.tmux("send-keys", "q")
        wait_until(lambda: "status 0" in terminal.text, 20, "it has ended")
    finally:
        terminal.tmux("kill-server")
        talks.kill()


@pytest.mark.parametrize("words, order", [([], ["python3", "rping"]), (["-s", "rnr", "-r"], ["rping", "python3"]),
                                          (["-s", "pid"], None),
                                          (["--sort", "program", "--reverse"], ["rping", "python3"]),
                                          (["--sort=ERROR"], ["python3", "rping"])])
def test_sorted(device, program, words, order):
    """By what was asked for; what is the same stays in the order in which it was opened."""
    port = new_port()
    other = device.start("rping", "-s", "-a", "127.0.0.1", "-p", port)
    wait_until(lambda: len(stat(device)["programs"]) == 2, 20, "rping has opened the device")
    text = expect_success(device.run(SIMHCA, "top", "-b", "-n", "1", "-d", "0.3", *words)).stdout
    other.kill()
    rows = re.findall(r"^(python3|rping) +(\d+)", text, re.M)
    # Which process has the lower number is not known: they begin again when all were used.
    assert [name for name, _ in rows] == (order or [name for name, pid in sorted(rows, key=lambda row: int(row[1]))])
