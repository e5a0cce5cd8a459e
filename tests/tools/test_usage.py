# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""What the tool says about itself, and about command lines that it cannot use."""

import re
import subprocess

import pytest

from common import BUILD
from tool import SUBCOMMANDS


def one_line(text):
    return text.endswith("\n") and text.count("\n") == 1


def test_help_names_every_subcommand(tool):
    result = tool("--help")
    assert result.returncode == 0 and not result.stderr
    for name in SUBCOMMANDS:
        assert f"\n  {name} " in result.stdout


@pytest.mark.parametrize("name", SUBCOMMANDS)
@pytest.mark.parametrize("option", ["--help", "-h"])
def test_subcommand_help(tool, name, option):
    result = tool(name, option)
    assert result.returncode == 0 and not result.stderr
    assert result.stdout.startswith(f"Usage: simhca {name} ")
    assert "--runtime-dir" in result.stdout


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_help_of_a_subcommand(tool, name):
    assert tool("help", name).stdout == tool(name, "--help").stdout
    assert "\nExit status: " in tool("help", name).stdout


@pytest.mark.parametrize("topic, word", [("exit-status", "127"), ("environment", "SIMHCA_EXPLAIN"),
                                         ("files", "/run/simhca")])
def test_help_topics(tool, topic, word):
    result = tool("help", topic)
    assert result.returncode == 0 and word in result.stdout and topic in tool("--help").stdout


def test_nothing_is_asked_for(tool):
    """That is wrong; but what there is to ask for is what somebody needs then."""
    result = tool()
    assert result.returncode == 2 and not result.stdout and result.stderr == tool("--help").stdout


@pytest.mark.parametrize("way", ["--version", "-V", "version"])
def test_version(tool, way):
    result = tool(way)
    assert result.returncode == 0
    word, number = result.stdout.split()
    assert word == "simhca" and number[0].isdigit()


@pytest.mark.parametrize("before", [["-j"], ["--json", "--runtime-dir", "/nonexistent"], ["--runtime-dir=/nonexistent"]])
def test_options_before_the_subcommand(tool, before):
    """As behind it."""
    first, behind = tool(*before, "env"), tool("env", *before)
    assert first.returncode == 0 and (first.stdout, first.stderr) == (behind.stdout, behind.stderr)
    assert "simhca env: " in tool(*before, "env", "--fly").stderr


@pytest.mark.parametrize("arguments", [["-j"], ["--runtime-dir"], ["--runtime-dir", "status"], ["-j", "fly"], ["-x", "qp"]])
def test_options_before_no_subcommand(tool, arguments):
    result = tool(*arguments)
    assert result.returncode == 2 and one_line(result.stderr) and f"{arguments[0]}: no such option" in result.stderr


@pytest.mark.parametrize("arguments, names", [
    (["fly"], "fly: no such subcommand; run, start,"),
    (["--fly"], "--fly"),
    (["run"], "command is missing"),
    (["run", "--"], "command is missing"),
    (["run", "--fly", "true"], "--fly"),
    (["run", "--mtu"], "--mtu"),
    (["run", "--private=on", "true"], "--private=on: --private takes no value"),
    (["run", "--daemon-option", "fly", "true"], "--daemon-option fly"),
    (["run", "--daemon-option", "=1", "true"], "--daemon-option =1"),
    (["run", "--daemon-option", "--mtu=1", "true"], "--daemon-option --mtu=1"),
    (["run", "--private", "--runtime-dir", "/x", "true"], "--runtime-dir /x"),
    (["start", "now"], "now: it takes options only; simhca start --help has them"),
    (["stop", "now"], "now"),
    (["status", "--fly"], "--fly"),
    (["explain", "--qp", "0"], "--qp 0: must be a number from 1"),
    (["top", "--delay", "0"], "--delay 0: must be a number of seconds"),
    (["top", "-n"], "-n needs a value"),
    (["stat", "-b"], "-b"),
    (["help", "fly"], "help fly: must be a subcommand"),
    (["trace", "--write", "x", "--opcode", "send,fly"], "--opcode send,fly: must be of send,"),
    (["trace", "--write", "-", "--file-size", "1"], "--file-size is for files"),
    (["trace"], "--write FILE is missing"),
    (["trace", "--", "true"], "--write FILE is missing"),
    (["trace", "--fly", "--", "true"], "--fly: no such option"),
    (["inject"], "nothing: should be add RULE..., list, clear [NUMBER]..., or replay CAPTURE"),
    (["inject", "add"], "add: a rule is missing"),
    (["inject", "add", "lose"], "lose: a rule begins with drop, "),
    (["inject", "list", "3"], "list: should be add RULE..."),
    (["inject", "replay"], "replay: should be add RULE..."),
    (["run", "--inject", "lose", "--", "true"], "lose: a rule begins with drop, "),
    (["explain", "NOTHING_KNOWN"], "NOTHING_KNOWN: must be a completion's status"),
    (["explain", "KEY_PAST_ENDS"], "KEY_PAST_ENDS: no error is called that; did you mean KEY_PAST_END?"),
    (["explain", "--folow"], "--folow: no such option; did you mean --follow?"),
    (["run", "--devcies=2"], "--devcies=2: no such option; did you mean --devices?"),
    (["top", "-bx"], "-x: no such option"),
    (["top", "--qps", "-bxd", "1"], "-x: no such option"),
    (["top", "-bn"], "-n needs a value"),
    (["top", "-b", "--delay"], "--delay needs a value"),
    (["top", "--batch=3"], "--batch=3: --batch takes no value"),
    (["top", "--sort", "msgs"], "--sort msgs: no such column; did you mean msg?"),
    (["stat", "-s", "colour"], "--sort colour: must be msg, bytes,"),
    (["stat", "--histogramm"], "did you mean --histogram?"),
    (["stat", "--prometheus", "--histogram"], "--prometheus has histograms"),
    (["status", "-x"], "-x: no such option"),
    (["explain", "--diagram", "--json"], "--json has no diagram"),
    (["explain", "-987654"], "-987654: must be a completion's status"),
    (["explian"], "explian: no such subcommand; did you mean explain?"),
    (["env", "--format", "xml"], "--format xml: must be sh, docker, env-file or json"),
])
def test_usage_errors(tool, arguments, names):
    result = tool(*arguments)
    ends_as_command = arguments[:1] == ["run"] or arguments[:1] == ["trace"] and "--" in arguments
    assert result.returncode == (125 if ends_as_command else 2)
    assert names in result.stderr and one_line(result.stderr)
    assert not result.stdout


def test_an_option_that_is_cut_short(tool):
    """Where that leaves one; and where it leaves several, none of them is taken."""
    assert tool("run", "--priv", "--", "true").returncode == 0
    several = tool("run", "--d", "--", "true")
    assert several.returncode == 125 and "--d: no such option" in several.stderr


DAEMON_OPTION = re.compile("^  --([a-z0-9-]+)(?: ([A-Zaeop][^ ]*))?(?:  +|$)", re.M)


@pytest.mark.parametrize("name", ["run", "start"])
def test_every_option_of_the_daemon_is_taken(tool, name):
    """By its own name; but for those that say how it is started, which the tool does."""
    simhcad = subprocess.run([BUILD / "bin" / "simhcad", "--help"], capture_output=True, text=True,
                             check=True)
    options = set(DAEMON_OPTION.findall(simhcad.stdout))
    told = set(DAEMON_OPTION.findall(tool(name, "--help").stdout.partition("Options for a daemon")[2]))
    assert ("wire", "off|roce") in options and len(told) > 30
    starter = {"runtime-dir", "daemonize", "captive", "ready-fd", "help", "version"}
    assert {option for option in options if option[0] not in starter} == told


def test_old_names_of_options(tool):
    assert tool.normalised("--interface", "eth7") == tool.normalised("--netdev=eth7")
    assert tool.normalised("--daemon-option", "wire=roce") == tool.normalised("--wire", "roce")
    for hidden in ("--interface", "--log ", "--daemon-option", "--engines-in-callers"):
        assert hidden not in tool("run", "--help").stdout


@pytest.mark.parametrize("name", ["run", "start"])
def test_daemon_refuses_a_value(tool, name):
    """The daemon knows its values; its line is what the user sees."""
    result = tool(name, "--mtu", "7", *(["true"] if name == "run" else []))
    assert result.returncode == (125 if name == "run" else 2)
    assert result.stderr == "simhcad: --mtu 7: must be 256, 512, 1024, 2048 or 4096\n"


def test_runtime_directory_too_long(tool):
    result = tool("status", SIMHCA_RUNTIME_DIR="/tmp/" + "d" * 120)
    assert result.returncode == 1
    assert "--runtime-dir" in result.stderr and one_line(result.stderr)
