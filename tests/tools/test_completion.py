# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Completion: what the tool says that a word can be, and what shells make of it, with the key TAB."""

import os
import pathlib
import pty
import re
import select
import subprocess
import time

import pytest

from tool import SUBCOMMANDS

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "tools" / "completion"


def answer(tool, *words):
    """What kind of word the last one is, and which it can be."""
    kind, _, rest = tool("complete", *words).stdout.partition("\n")
    return kind, [line.split("\t")[0] for line in rest.splitlines()]


def offered(tool, *words):
    kind, candidates = answer(tool, *words)
    assert kind == "words"
    return candidates


def test_subcommands(tool):
    assert offered(tool, "st") == ["start", "stop", "status", "stat"]
    assert set(SUBCOMMANDS) | {"help", "--help", "--version"} == set(offered(tool, ""))
    assert "environment" in offered(tool, "help", "e")
    assert answer(tool, "nothing", "--") == ("", [])


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_options_are_those_of_help(tool, name):
    told = re.findall(r"^  (?:-\w, )?(--[a-z0-9-]+)", tool(name, "--help").stdout, re.M)
    assert offered(tool, name, "--") == told


@pytest.mark.parametrize("words, candidates", [
    (["run", "--link-layer", ""], ["ethernet", "ib"]),
    (["run", "--memory", "p"], ["process_vm"]),
    (["run", "--mtu", "2"], ["256", "2048"]),
    (["run", "--mtu=2"], ["--mtu=256", "--mtu=2048"]),
    (["run", "--wire", ""], ["off", "roce"]),
    (["run", "--profile", "connectx-6"], ["connectx-6", "connectx-6-dx"]),
    (["run", "--engines", ""], []),
    (["start", "--netdev", "l"], ["lo"]),
    (["env", "--format", "d"], ["docker"]),
    (["trace", "--opcode", "send,w"], ["send,write"]),
    (["explain", "KEY_PAST"], ["KEY_PAST_END"]),
    (["explain", "--lint", "REM_INV_"], ["REM_INV_REQ_ERR"]),
    (["inject", ""], ["add", "list", "clear", "replay"]),
    (["inject", "--runtime-dir", "/tmp", "cl"], ["clear"]),
    (["inject", "add", "du"], ["duplicate"]),
    (["inject", "add", "nak a"], ["nak access"]),
    (["inject", "add", "no-event "], ["no-event " + key for key in (
        "device=", "program=", "nth=", "every=", "times=", "p=", "seed=")]),
    (["inject", "add", "drop opcode=ATOMIC_C"], ["drop opcode=ATOMIC_CMP_AND_SWP"]),
    (["inject", "add", "drop dir"], ["drop direction="]),
    (["run", "--inject", "async QP_F"], ["async QP_FATAL"]),
])
def test_values(tool, words, candidates):
    assert sorted(set(offered(tool, *words))) == sorted(candidates)


def test_what_is_offered_is_taken(tool):
    """A wrong one is told before that no daemon runs."""
    for column in offered(tool, "top", "--sort", ""):
        assert tool("stat", "--sort", column).returncode == 1
    for rule in offered(tool, "inject", "add", "complete "):
        if not rule.endswith("="):
            assert tool("inject", "add", rule).returncode == 1, rule
    for error in offered(tool, "explain", ""):
        assert tool("explain", error).returncode == 0, error


def test_what_the_daemon_knows(tool):
    assert tool("start").returncode == 0
    assert offered(tool, "explain", "--pid", "") == ["4242"]
    assert offered(tool, "qp", "--device", "") == ["simhca0"]
    assert offered(tool, "inject", "add", "drop program=") == ["drop program=pingpong"]
    tool("stop")


@pytest.mark.parametrize("before", [["--"], [], ["--private", "--mtu", "512"], ["--mtu=512", "--"],
                                    ["--mw-type-2a"]])
def test_where_the_command_begins(tool, before):
    place = 1 + len(before)
    assert answer(tool, "run", *before, "print") == (f"command {place}", [])
    assert answer(tool, "run", *before, "cat", "--private", "--p") == (f"command {place}", [])
    assert answer(tool, "trace", "-w", "x", *(["--"] if before == ["--"] else []), "cat", "x")[0].startswith("command")


def test_files(tool):
    for words in (["run", "--config"], ["trace", "-w"], ["inject", "replay"], ["run", "--log-file"]):
        assert answer(tool, *words, "") == ("files", [])
    assert answer(tool, "stop", "--runtime-dir", "") == ("directories", [])
    assert answer(tool, "run", "--inject", "/etc/os-rel") == ("files", [])


# --------------------------------------------------------------------------------------- shells

class Terminal:
    """A shell that somebody types to."""

    def __init__(self, tool, *command):
        environment = tool.env(PATH=f"{tool.path.parent}:{os.environ['PATH']}", TERM="dumb", PS1="> ",
                               HISTFILE="/dev/null", COLUMNS=200)
        self.end, end = pty.openpty()
        self.process = subprocess.Popen(command, env=environment, stdin=end, stdout=end, stderr=end,
                                        start_new_session=True)
        os.close(end)

    def type(self, text, until, seconds=20):
        """What is on the screen afterwards."""
        os.write(self.end, text.encode())
        screen, deadline = "", time.monotonic() + seconds
        while not re.search(until, screen) and time.monotonic() < deadline:
            if select.select([self.end], [], [], 0.1)[0]:
                screen += os.read(self.end, 65536).decode(errors="replace")
        assert re.search(until, screen), screen
        return screen

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.end)


@pytest.fixture(scope="module")
def dump(tmp_path_factory):
    """Where zsh keeps what it has found in a thousand files."""
    return tmp_path_factory.mktemp("zsh") / "dump"


@pytest.fixture(params=["bash", "zsh"])
def shell(request, tool, dump):
    if request.param == "bash":
        terminal = Terminal(tool, "bash", "--norc", "-i")
        terminal.type(f"bind 'set enable-bracketed-paste off'; . {SCRIPTS}/simhca.bash; echo rea''dy\n", "\nready")
    else:
        terminal = Terminal(tool, "zsh", "-f", "-i")
        terminal.type(f"unsetopt zle_bracketed_paste prompt_cr; fpath=({SCRIPTS} $fpath); autoload -U compinit; "
                      f"compinit -u -C -d {dump}; echo rea''dy\n", "\nready")
    yield terminal
    terminal.close()


@pytest.mark.parametrize("typed, completed", [
    ("simhca expl\t", "simhca explain "),
    ("simhca run --link-l\t", "--link-layer "),
    ("simhca run --mtu=51\t", "--mtu=512 "),
    ("simhca run --log-file=/etc/os-rel\t", "/etc/os-release"),
    ("simhca run --config /etc/os-rel\t", "/etc/os-release"),
    ("simhca explain KEY_PAST_E\t", "KEY_PAST_END "),
    ("simhca inject add 'drop opcode=ATOMIC_C\t", "ATOMIC_CMP_AND_SWP"),
    ("simhca run --private -- cat /etc/os-rel\t", "/etc/os-release"),
    ("simhca run --private base64 /etc/os-rel\t", "/etc/os-release"),
    ("simhca run -- ibv_rc_pingp\t", "ibv_rc_pingpong "),
])
def test_tab(shell, typed, completed):
    shell.type(typed, completed)


def test_tab_offers_all(shell):
    shell.type("simhca st\t\t", r"start[\s\S]*stat")


def test_tab_of_what_the_daemon_knows(tool, shell):
    assert tool("start").returncode == 0
    try:
        shell.type("simhca explain --pid 42\t", "--pid 4242 ")
        shell.type("--device sim\t", "--device simhca0 ")
    finally:
        tool("stop")


def fish(tool, line):
    script = f"source {SCRIPTS}/simhca.fish; complete -C {line!r}"
    environment = tool.env(PATH=f"{tool.path.parent}:{os.environ['PATH']}", HOME=tool.runtime)
    return [word.split("\t")[0] for word in
            subprocess.run(["fish", "--no-config", "-c", script], env=environment, capture_output=True, text=True,
                           timeout=60, check=True).stdout.splitlines()]


@pytest.mark.parametrize("typed, candidates", [
    ("simhca expl", {"explain"}),
    ("simhca run --link-l", {"--link-layer"}),
    ("simhca run --mtu=2", {"--mtu=256", "--mtu=2048"}),
    ("simhca run --config /etc/os-rel", {"/etc/os-release"}),
    ("simhca run --config=/etc/os-rel", {"--config=/etc/os-release"}),
    ("simhca stop --runtime-dir /us", {"/usr/"}),
    ("simhca explain KEY_PAST_E", {"KEY_PAST_END"}),
    ("simhca inject add 'drop opcode=ATOMIC_C", {"drop opcode=ATOMIC_CMP_AND_SWP"}),
    ("simhca run --private -- cat /etc/os-rel", {"/etc/os-release"}),
    ("simhca run -- ibv_rc_pingp", {"ibv_rc_pingpong"}),
])
def test_fish(tool, typed, candidates):
    assert set(fish(tool, typed)) == candidates


def test_fish_of_what_the_daemon_knows(tool):
    assert tool("start").returncode == 0
    try:
        assert fish(tool, "simhca explain --pid ") == ["4242"]
        assert fish(tool, "simhca qp --device ") == ["simhca0"]
    finally:
        tool("stop")
