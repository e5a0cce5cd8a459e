# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""`simhca inject`: rules through the whole stack, and each recipe of Documentation/faults.md."""
import json
import re

import pytest

from common import HERE, TIME_LIMIT, SIMHCA, Device, expect_success, new_port, wait_command, wait_until

PYTHON = "/usr/bin/python3"
FAILING = HERE / "failing.py"
SURVIVOR = HERE / "survivor.py"
PAGE = HERE.parent.parent / "Documentation" / "faults.md"
USAGE = 2


def run(launcher, rules, *argv, **variables):
    options = [f"--inject={rule}" for rule in rules]
    return launcher.run(SIMHCA, "run", "--private", *options, "--", *argv, **variables)


# --------------------------------------------------------------------------------- recipes


def recipes():
    """{case: rules}, as the page has them."""
    rows = re.findall(r"^\| `(\w+)` \| (`[^|]*`) \|", PAGE.read_text().partition("Does my program survive")[2], re.M)
    return {case: re.findall(r"`([^`]*)`", rules) for case, rules in rows}


def rping_script(port, times):
    """A server, and a client that connects at most so often."""
    return (f"rping -s -P -a 127.0.0.1 -p {port} & server=$!; sleep 0.5; status=1;"
            f"for i in $(seq {times}); do rping -c -a 127.0.0.1 -p {port} -C 3 && status=0 && break;"
            "sleep 0.1; done; kill $server; exit $status")


@pytest.mark.parametrize("how, status", [("careful", 0), ("careless", 1)])
@pytest.mark.parametrize("case", recipes())
def test_recipe(launcher, case, how, status):
    """The program without the bug survives, the one with it does not; and each rule has fired."""
    if case == "rejected":
        argv = ["sh", "-c", rping_script(new_port(), 3 if how == "careful" else 1)]
    else:
        argv = [PYTHON, SURVIVOR, case, how]
    result = run(launcher, recipes()[case], *argv, SIMHCA_EXPLAIN="0")
    assert result.status == status, result
    assert "simhca run: rule" not in result.stderr


def test_there_are_twenty():
    assert len(recipes()) >= 20


# Their programs wait for the fault.
WAITING = {"partial_write", "dead_peer", "send_queue_error", "rejected"}


@pytest.mark.parametrize("case", sorted(recipes().keys() - WAITING))
def test_without_rules(launcher, case):
    """What fails is the fault's doing: the careless program is right when nothing happens."""
    assert run(launcher, [], PYTHON, SURVIVOR, case, "careless").status == 0


# --------------------------------------------------------------------------------- the tool


@pytest.fixture(scope="module")
def device():
    """A daemon that outlives its programs."""
    with Device("ethernet") as device:
        yield device


def inject(device, *argv):
    return device.run(SIMHCA, "inject", *argv)


def rules_of(device):
    return json.loads(expect_success(inject(device, "--json", "list")).stdout)


def test_rules_of_a_daemon(device):
    """They are added, listed with what they met, and cleared; a program is chosen by its name."""
    expect_success(inject(device, "add", "verb REG_MR=ENOMEM program=python3", "drop program=nobody"))
    assert device.run(PYTHON, FAILING, "fine").status == 1
    one, other = rules_of(device)
    assert (one["met"], one["fired"], other["met"], other["run"]) == (1, 1, 0, 0)
    lines = expect_success(inject(device, "list")).stdout.splitlines()
    assert lines[0] == f"{one['number']}: verb REG_MR=ENOMEM program=python3: met 1 times, fired 1"
    expect_success(inject(device, "clear", str(one["number"])))
    assert [rule["number"] for rule in rules_of(device)] == [other["number"]]
    expect_success(device.run(PYTHON, FAILING, "fine"))
    assert inject(device, "clear", "999").status == 1
    expect_success(inject(device, "clear"))
    assert rules_of(device) == []


def test_rules_end_with_their_run(device):
    expect_success(device.run(SIMHCA, "run", "--inject", "drop nth=1", "--", "true"))
    wait_until(lambda: not rules_of(device), 10, "the rule of a run that has ended has gone")


def test_now(device):
    """A program is killed where it stands; nobody of that name is a refusal."""
    program = device.start(PYTHON, "-c", "import pyverbs.device as d, time;"
                           "c = d.Context(name='simhca0'); print('open', flush=True); time.sleep(60)")
    wait_until(lambda: "open" in program.stdout, TIME_LIMIT, "the program has opened the device")
    expect_success(inject(device, "add", f"kill now program={program.pid}"))
    assert program.finish().status == -9
    for rule, why in (("kill now program=nobody", "no such program has the device open"),
                      ("fatal now", "no program has the device open"),
                      ("fatal now device=nothing", "there is no such device")):
        result = inject(device, "add", rule)
        assert result.status == 1 and f"{rule}: {why}" in result.stderr, result


def simhca0(device):
    return json.loads(expect_success(device.run(SIMHCA, "status", "--json")).stdout)["devices"][0]


def test_ports_and_addresses_come_back(device):
    before = simhca0(device)
    for rule, key in ("port-down 300ms now", "state"), ("gid-change 300ms now", "gids"):
        expect_success(inject(device, "add", rule))
        assert simhca0(device)[key] != before[key]
        wait_until(lambda: simhca0(device) == before, 10, f"{rule}: is over")
    expect_success(device.run(SIMHCA, "run", "--inject", "port-down", "--", PYTHON, FAILING, "fine"))
    wait_until(lambda: simhca0(device) == before, 10, "the port is up when its rule has ended")


def test_down_for_good(launcher):
    """A rule without a time outlasts one with a time that was before it."""
    result = launcher.run(SIMHCA, "run", "--private", "--inject", "port-down 300ms nth=1", "--inject", "port-down nth=1",
                          "--", "sh", "-c", f"{PYTHON} {FAILING} fine; sleep 0.8; {SIMHCA} status --json")
    status = json.loads(result.stdout[result.stdout.index("{"):])
    assert [one["state"] for one in status["devices"]] == ["DOWN"]


def test_no_fast_path(launcher):
    """A rule sees all messages, whoever would carry them otherwise."""
    port = new_port()
    result = launcher.run(SIMHCA, "run", "--private", "--daemon-option", "fast-path=on",
                          "--inject=delay 1us nth=1000", "--", "sh", "-c",
                          f"ibv_rc_pingpong -g 0 -p {port} >/dev/null & {wait_command(port)} &&"
                          f"ibv_rc_pingpong -g 0 -p {port} localhost && wait")
    assert result.status == 0 and "simhca run: rule" not in result.stderr


RPING = "rping -s -a 127.0.0.1 -p {port} -C 20 & sleep 1; rping -c -a 127.0.0.1 -p {port} -C 20"
UCMATOSE = "ucmatose -p {port} -C 20 -c 2 & sleep 1; ucmatose -s 127.0.0.1 -p {port} -C 20 -c 2"
RSTREAM = "rstream -p {port} -S 1000 -C 40 & sleep 1; rstream -s 127.0.0.1 -p {port} -S 1000 -C 40"
RDMA_CLIENT = ("rdma_server -s 127.0.0.1 -p {port} & sleep 1; rdma_client -s 127.0.0.1 -p {port}")


@pytest.mark.parametrize("rule, script", [
    ("drop every=20 times=8", RPING), ("drop every=20 times=8", UCMATOSE),
    ("drop every=20 times=8", RSTREAM), ("drop nth=1-2", RDMA_CLIENT)],
    ids=["rping", "ucmatose", "rstream", "rdma_client"])
def test_losses_of_connections_by_rdma_cm(launcher, rule, script):
    """Their programs survive losses, by the time-out that rdma_cm gives them; and that is told."""
    script = script.format(port=new_port()) + " || exit 1; wait $!"
    result = run(launcher, [rule], "sh", "-c", script, SIMHCA_EXPLAIN="1")
    assert result.status == 0 and "simhca run: rule" not in result.stderr, result
    assert re.search(rf"a fault by rule 1: {rule}(, \d times)?\n  waited:     at least 537 ms "
                     r"\(timeout 17\) for an answer, each time, before it sent again\n", result.stderr), result


# ------------------------------------------------------------------------- what is said of it


def test_files(launcher, tmp_path):
    """A rule in each line; what is wrong is told with its line, and nothing runs."""
    rules = tmp_path / "rules"
    rules.write_text("# nothing\n\ndelay 1ms nth=1 # so\n  duplicate nth=2-\n")
    result = run(launcher, [rules], PYTHON, FAILING, "fine")
    assert result.status == 0
    assert result.stderr == ("simhca run: rule 2 never fired, of 1 time that it could: duplicate nth=2-: "
                             "it would have fired at number 2 first\n")
    rules.write_text("drop\ndrop nth=x\n")
    result = run(launcher, [rules], "false")
    assert result.status == 125
    assert result.stderr == f"simhca run: {rules}:2: nth=x: should be N, N-M or N- , counted from 1\n"


@pytest.mark.parametrize("rule, why", [
    ("drop opcode=RDMA_READ", r"of 1 request none was of that opcode; their opcodes: RDMA_WRITE"),
    ("rnr opcode=RDMA_READ,SEND nth=2",
     r"of 1 request of a reliable QP none was of that opcode; their opcodes: RDMA_WRITE"),
    ("drop program=server", r"of 1 request none was of a program server"),
    ("drop program=1", r"of 1 request none was of process 1"),
    ("drop device=simhca7", r"of 1 request none was on device simhca7"),
    ("drop qp=7 opcode=RDMA_WRITE", r"of 1 request none was at QP 0x000007"),
    ("reorder", r"of 1 request none was a datagram \(UD\)"),
    ("verb CREATE_SRQ=ENOMEM", r"of \d+ commands none was that one"),
    ("reject", r"there was no connection of rdma_cm"),
    ("no-event", r"there was no completion event"),
    ("complete REM_OP_ERR side=receive opcode=SEND_WITH_IMM",
     r"there was no message that took a receive")])
def test_what_met_nothing(launcher, rule, why):
    """A fault that did not happen has tested nothing; the exit status is the program's."""
    result = run(launcher, [rule], PYTHON, FAILING, "fine")
    assert result.status == 0
    assert re.fullmatch(f"simhca run: rule 1 met nothing: {rule}: {why}\n", result.stderr), result


def test_what_does_not_fire_yet(device):
    """The list says so while the rule stands, of what programs carry themselves otherwise as well."""
    expect_success(inject(device, "add", "drop every=50", "drop opcode=SEND"))
    expect_success(device.run(PYTHON, FAILING, "fine", "30"))
    lines = expect_success(inject(device, "list")).stdout.splitlines()
    assert lines[0].endswith(": drop every=50: met 30 times, fired 0; it would have fired at number 50 first")
    assert lines[1].endswith(": drop opcode=SEND: met 0 times, fired 0; "
                             "of 30 requests none was of that opcode; their opcodes: RDMA_WRITE")
    expect_success(device.run(PYTHON, FAILING, "fine", "30"))
    assert inject(device, "list").stdout.splitlines()[0].endswith(": met 61 times, fired 1")
    expect_success(inject(device, "clear"))


def test_explain(launcher):
    """The rule stands under the failure that came of it, and the reason is the rule."""
    result = expect_success(run(launcher, ["drop"], PYTHON, FAILING, "fine", SIMHCA_EXPLAIN="1"))
    assert re.search(r"RETRY_EXC_ERR\n  because:    a rule of `simhca inject` made it happen "
                     r"\(INJECTED, vendor_err 4\)\n", result.stderr)
    assert re.search(r"\n  injected:   rule 1: drop, 3 times, at python3\[\d+\], QP 0x\w+ \(RC\)\n",
                     result.stderr)
    assert len(result.stderr.strip().split("\n\n")) == 1


@pytest.mark.parametrize("rule, headline, because, injected", [
    ("async PORT_ERR nth=1", r"python3\[\d+\]: IBV_EVENT_PORT_ERR, port 1",
     "a rule of `simhca inject` raised it, and nothing else has happened", r", QP 0x\w+ \(RC\)"),
    ("async QP_FATAL nth=1", r"python3\[\d+\], QP 0x\w+: IBV_EVENT_QP_FATAL",
     "a rule of `simhca inject` raised it, and nothing else has happened", r", QP 0x\w+ \(RC\)")])
def test_explain_what_a_rule_raised(launcher, rule, headline, because, injected):
    """One story, which says that nothing happened but what was asked for."""
    result = run(launcher, [rule], PYTHON, FAILING, "fine", SIMHCA_EXPLAIN="1")
    story = result.stderr[re.search(r"^\d\d:\d\d:\d\d", result.stderr, re.M).start():]
    assert re.match(rf"[\d:.]+ {headline}\n  because:    {re.escape(because)} \(INJECTED, vendor_err 4\)\n"
                    rf"  injected:   rule 1: {rule}, at python3\[\d+\]{injected}\n", story), result
    assert "See that the program survives it" in story and "\n\n" not in story.strip(), result


def test_explain_what_a_rule_raises_again_and_again(launcher):
    """One story of each program, with how often."""
    port = new_port()
    pingpong = f"ibv_rc_pingpong -g 0 -n 20 -p {port}"
    result = run(launcher, ["async PORT_ERR"], "sh", "-c", f"{pingpong} >/dev/null & {wait_command(port)} &&"
                 f"{pingpong} localhost && wait", SIMHCA_EXPLAIN="1")
    told = re.findall(r"\[(\d+)\]: IBV_EVENT_PORT_ERR, port 1, 20 times\n"
                      r"  because:    a rule of `simhca inject` raised it, .*\n"
                      r"  injected:   rule 1: async PORT_ERR, 20 times, at ibv_rc_pingpong\[(\d+)\]", result.stderr)
    assert len(told) == 2 and all(pid == at for pid, at in told), result
    assert result.stderr.count("IBV_EVENT") == 2, result


@pytest.mark.parametrize("words, hint", [
    (["async PORT_ERR"], "did you mean add 'async PORT_ERR'?"), (["lst"], "did you mean list?"),
    (["anything"], "should be add RULE..., list, clear [NUMBER]..., or replay CAPTURE")])
def test_a_rule_without_add(launcher, words, hint):
    result = launcher.run(SIMHCA, "inject", *words)
    assert result.status == 2 and result.stderr == f"simhca inject: {words[0]}: {hint}\n", result


def test_explain_a_port_that_a_rule_takes_down(launcher):
    """No cable was pulled; all who have the device open are told so."""
    result = run(launcher, ["port-down 100ms nth=1"], PYTHON, SURVIVOR, "port_down", "careful",
                 SIMHCA_EXPLAIN="1")
    assert re.search(r"IBV_EVENT_PORT_ERR, port 1\n  because:    the port went down, by a rule of `simhca "
                     r"inject` \(INJECTED, vendor_err 4\)\n", result.stderr), result


def test_the_log(launcher):
    result = run(launcher, ["delay 1ms nth=1"], PYTHON, FAILING, "fine")
    assert result.stderr == ""
    result = launcher.run(SIMHCA, "run", "--private", "--log-level", "info", "--inject=delay 1ms nth=1",
                          "--", PYTHON, FAILING, "fine")
    assert re.search(r"info: process \d+, QP 0x\w+: rule 1: delay 1ms nth=1\n", result.stderr)


def test_the_same_seed(launcher):
    """Runs with one seed have the same faults: the same number of them, of a hundred chances."""
    def fired(seed):
        text = run(launcher, [f"delay 1us p=0.5 seed={seed}"], PYTHON, FAILING, "fine", "30",
                   SIMHCA_EXPLAIN="1").stderr
        return len(re.findall(r"a fault by rule 1", text))

    first = fired(1)
    assert 0 < first < 30
    assert fired(1) == first
