# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""simhca run: the command is in the foreground, the daemon lives as long as its commands."""

import json
import os
import pathlib
import pty
import re
import signal
import subprocess
import tempfile
import time

import pytest

from common import BUILD, alive, wait_until


def records(path):
    return [json.loads(line) for line in pathlib.Path(path).read_text().splitlines()]


@pytest.mark.parametrize("status", [0, 1, 77, 124, 255])
def test_exit_status(tool, status):
    result = tool("run", "--", "sh", "-c", f"exit {status}")
    assert (result.returncode, result.stdout, result.stderr) == (status, "", "")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_command_dies_of_a_signal(tool, number):
    assert tool("run", "sh", "-c", f"kill -{int(number)} $$").returncode == 128 + number


def test_command_not_found(tool):
    result = tool("run", "no-such-command")
    assert result.returncode == 127
    assert result.stderr == "simhca run: no-such-command: command not found\n"


def test_command_not_executable(tool):
    result = tool("run", "/etc/passwd")
    assert result.returncode == 126 and "/etc/passwd" in result.stderr


def test_options_of_the_command_are_its_own(tool):
    assert tool("run", "echo", "--mtu", "--", "--help").stdout == "--mtu -- --help\n"


def test_command_environment(tool):
    result = tool("run", "env", LD_PRELOAD=None)
    variables = dict(line.split("=", 1) for line in result.stdout.splitlines() if "=" in line)
    assert variables["SIMHCA_RUNTIME_DIR"] == str(tool.runtime)
    assert variables["LD_PRELOAD"].endswith("/lib/libsimhca-preload.so")
    assert variables["IBV_DRIVERS"].endswith("/lib/libsimhca")


def test_standard_descriptors_and_no_others(tool):
    """The command reads our input, and inherits none of the tool's descriptors."""
    script = "cat; ls /proc/self/fd"
    process = subprocess.run([tool.path, "run", "sh", "-c", script], env=tool.env(), input="hello\n",
                             capture_output=True, text=True, timeout=60, check=True)
    assert process.stdout.split() == ["hello", "0", "1", "2", "3"]  # 3: ls's own


def test_daemon_ends_with_the_command(tool):
    result = tool("run", "cat", tool.runtime / "pid")
    assert result.returncode == 0
    assert not alive(int(result.stdout))


def test_daemon_that_still_answers_is_waited_for(tool):
    """It has nobody's lease any more, so it does not go on."""
    result = tool("run", "cat", tool.runtime / "pid", FAKE_STAY=1)
    assert result.returncode == 0
    assert not alive(int(result.stdout))


def test_daemon_environment(tool, tmp_path):
    """
    The daemon has a process group of its own in the command's session, so that it gets its share of
    CPU time, and neither our descriptors nor the preload library.
    """
    record = tmp_path / "record"
    mine = os.open("/dev/null", os.O_RDONLY)
    process = subprocess.Popen([tool.path, "run", "--mtu", "1024", "--interface", "eth7",
                                "--log", "/dev/null", "--mw-type-2a",
                                "--daemon-option", "node-guid=1:2", "true"],
                               env=tool.env(FAKE_RECORD=record,
                                            LD_PRELOAD=tool.prefix / "lib/libsimhca-preload.so"),
                               stdin=subprocess.DEVNULL, pass_fds=[mine])
    os.close(mine)
    assert process.wait(60) == 0
    daemon, = records(record)
    assert daemon["preload"] is None
    assert daemon["fds"] == [0, 1, 2, 3, 4]  # 3: --ready-fd; 4: the record itself
    assert daemon["sid"] == os.getsid(0)
    assert daemon["pgid"] not in (os.getpgid(0), process.pid)
    assert "--captive" in daemon["argv"]
    assert daemon["argv"][-5:] == ["--mtu=1024", "--netdev=eth7", "--log-file=/dev/null",
                                   "--mw-type-2a", "--node-guid=1:2"]


@pytest.mark.parametrize("options, level", [
    ([], "--log-level=warning"),
    (["--log-level", "debug"], "--log-level=debug"),
    (["--log", "/dev/null"], None),
    (["--config", "/dev/null"], None),
])
def test_captive_daemon_is_quiet(tool, tmp_path, options, level):
    """Its good news is no part of the command's output, unless asked for."""
    record = tmp_path / "record"
    tool("run", *options, "true", FAKE_RECORD=record)
    levels = [word for word in records(record)[0]["argv"] if word.startswith("--log-level")]
    assert levels == ([level] if level else [])


# A command that has the device by the time that it says so, and goes on for longer than any test takes.
SAYS_THAT_IT_RUNS = ["sh", "-c", "echo up; exec sleep 600"]


def until_there_is(path):
    """A command that says that it runs, and ends when there is such a file."""
    return ["sh", "-c", f"echo up; until [ -e {path} ]; do sleep 0.05; done"]


def test_two_runs_meet(tool, tmp_path):
    """The second joins, and the daemon stays for it when the first has gone."""
    record = tmp_path / "record"
    first = tool.start("run", *SAYS_THAT_IT_RUNS, FAKE_RECORD=record)
    assert first.stdout.readline() == "up\n"
    second = tool.start("run", *SAYS_THAT_IT_RUNS, FAKE_RECORD=record)
    assert second.stdout.readline() == "up\n"
    first.terminate()
    assert first.wait(60) == 128 + signal.SIGTERM
    assert tool.daemon_lives() and second.poll() is None
    second.terminate()
    second.wait(60)
    assert not tool.daemon_lives()
    assert len(records(record)) == 1


def test_first_run_holds_no_descriptor_of_the_second(tool, tmp_path):
    """Whoever reads the output of the first sees its end, though its daemon lives on."""
    first = tool.start("run", *until_there_is(tmp_path / "enough"))
    assert first.stdout.readline() == "up\n"
    second = tool.start("run", *SAYS_THAT_IT_RUNS)
    assert second.stdout.readline() == "up\n"
    (tmp_path / "enough").touch()
    assert first.communicate(timeout=60)[1] == ""
    assert second.poll() is None and tool.daemon_lives()


def test_many_at_once(tool, tmp_path):
    record = tmp_path / "record"
    processes = [tool.start("run", "sleep", "0.5", FAKE_RECORD=record, FAKE_START_DELAY=0.1)
                 for _ in range(12)]
    for process in processes:
        assert process.communicate(timeout=60) == ("", "")
        assert process.returncode == 0
    wait_until(lambda: not tool.daemon_lives(), 10, "the daemon has ended")


@pytest.mark.parametrize("linger", [None, 1])
def test_arrival_while_the_daemon_ends(tool, linger):
    """It waits, and has a new daemon."""
    first = tool.start("run", "true", FAKE_END_DELAY=1, FAKE_LINGER=linger)
    wait_until(lambda: tool.daemon_pid() is not None, 10, "the daemon has a pid")
    before = tool.daemon_pid()
    time.sleep(0.2)
    result = tool("run", "cat", tool.runtime / "pid")
    assert result.returncode == 0 and int(result.stdout) != before
    assert first.wait(10) == 0


def test_back_to_back(tool):
    for _ in range(5):
        assert tool("run", "true", FAKE_END_DELAY=0.05).returncode == 0


def test_other_options_than_the_daemons(tool):
    running = tool.normalised("--mtu", "1024", "--engines", "2")
    asked = tool.normalised("--mtu", "512")
    assert "1024" in running and "512" in asked
    tool.start("run", "sleep", "60", FAKE_OPTIONS=running)
    wait_until(tool.daemon_lives, 10, "the daemon runs")
    assert tool("run", "true").returncode == 0
    assert tool("run", "--engines", "2", "--mtu", "1024", "true").returncode == 0
    result = tool("run", "--mtu", "512", "true")
    assert result.returncode == 125 and result.stderr.count("\n") == 1
    for word in (running, asked, "--private", "--runtime-dir", "simhca stop",
                 str(tool.daemon_pid())):
        assert word in result.stderr


def test_options_are_compared_by_meaning(tool):
    """A default that is spelled out asks for nothing else, nor does a way of logging."""
    tool.start("run", "sleep", "60", FAKE_OPTIONS=tool.normalised("--log-level", "error"))
    wait_until(tool.daemon_lives, 10, "the daemon runs")
    assert tool("run", "--mtu", "4096", "--log-level", "debug", "true").returncode == 0


def test_bad_value_when_a_daemon_runs(tool):
    tool.start("run", "sleep", "60")
    wait_until(tool.daemon_lives, 10, "the daemon runs")
    result = tool("run", "--mtu", "7", "true")
    assert result.returncode == 125 and "--mtu 7: must be" in result.stderr


def test_private(tool):
    """A directory of its own, gone afterwards."""
    tool.start("run", "--mtu", "1024", "sleep", "60")
    wait_until(tool.daemon_lives, 10, "the daemon runs")
    result = tool("run", "--private", "--mtu", "512", "sh", "-c",
                  "echo $SIMHCA_RUNTIME_DIR; cat $SIMHCA_RUNTIME_DIR/pid")
    directory, pid = result.stdout.split()
    assert directory != str(tool.runtime) and not os.path.exists(directory)
    assert int(pid) != tool.daemon_pid() and not alive(int(pid))
    assert tool.daemon_lives()


@pytest.fixture
def places():
    """Where private directories are made; not pytest's, whose name is too long for sockets."""
    with tempfile.TemporaryDirectory(prefix="simhca-places-") as directory:
        yield pathlib.Path(directory)


def private(tool, places, **changes):
    """A simhca run --private that lives, and its directory."""
    process = tool.start("run", "--private", "sh", "-c", "echo $SIMHCA_RUNTIME_DIR; exec sleep 60",
                         TMPDIR=places, XDG_RUNTIME_DIR=None, **changes)
    return process, pathlib.Path(process.stdout.readline().strip())


def daemon_ended(directory):
    try:
        return not alive(int((directory / "pid").read_text()))
    except FileNotFoundError:
        return True


def test_private_of_a_killed_run_is_swept(tool, places):
    """The next one removes it; not what lives, nor what only has such a name."""
    _, living = private(tool, places)
    killed, left = private(tool, places)
    (places / "simhca-abcdef").mkdir()
    killed.kill()
    killed.wait()
    wait_until(lambda: daemon_ended(left), 10, "the daemon that was left has ended")
    assert left.is_dir()
    assert tool("run", "--private", "true", TMPDIR=places, XDG_RUNTIME_DIR=None).returncode == 0
    assert {path.name for path in places.iterdir()} == {living.name, "simhca-abcdef"}
    assert (living / "control").exists()


def test_private_of_a_killed_run_stays_while_its_daemon_does(tool, places):
    killed, left = private(tool, places, FAKE_END_DELAY=3)
    killed.kill()
    killed.wait()
    assert tool("run", "--private", "true", TMPDIR=places, XDG_RUNTIME_DIR=None).returncode == 0
    assert left.is_dir()
    wait_until(lambda: daemon_ended(left), 10, "the daemon that was left has ended")
    assert tool("run", "--private", "true", TMPDIR=places, XDG_RUNTIME_DIR=None).returncode == 0
    assert not left.exists()


def test_many_private_at_once(tool, places):
    """Those that sweep leave those that begin alone."""
    processes = [tool.start("run", "--private", "true", TMPDIR=places, XDG_RUNTIME_DIR=None)
                 for _ in range(12)]
    for process in processes:
        assert process.communicate(timeout=60) == ("", "") and process.returncode == 0
    assert list(places.iterdir()) == []


def read_only(*command, **changes):
    """Runs it where /tmp and /run are read-only, as in a container with --read-only."""
    script = "mount -t tmpfs -o ro none /tmp && mount -t tmpfs -o ro none /run && exec \"$@\""
    namespaces = ["unshare", "--mount", *([] if os.getuid() == 0 else ["-r"])]
    if subprocess.run([*namespaces, "sh", "-c", script, "sh", "true"], check=False,
                      capture_output=True).returncode:
        pytest.skip("no mount namespaces for us here")
    # Nor do sanitizers have a place for their reports there.
    environment = {name: re.sub(r"log_path=[^:]*", "", value) for name, value in os.environ.items()
                   if name not in ("SIMHCA_RUNTIME_DIR", "XDG_RUNTIME_DIR", "TMPDIR")}
    return subprocess.run([*namespaces, "sh", "-c", script, "sh", *command], text=True, timeout=60,
                          env=environment | changes, capture_output=True, check=False)


@pytest.mark.parametrize("options", [["run"], ["run", "--private"], ["start"]])
@pytest.mark.parametrize("changes", [{}, {"SIMHCA_RUNTIME_DIR": "/tmp/simhca"}])
def test_read_only_container(options, changes):
    """With the real daemon: the words are its own."""
    if str(BUILD).startswith(("/tmp/", "/run/")):
        pytest.skip("the build tree is below /tmp or /run, which are others here")
    done = read_only(BUILD / "bin" / "simhca", *options, *(["true"] if "run" in options else []),
                     **changes)
    assert done.returncode in (1, 125)
    assert "ead-only" in done.stderr and "--tmpfs /tmp" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT,
                                    signal.SIGUSR1, signal.SIGUSR2])
def test_signals_are_passed_on(tool, number):
    name = signal.Signals(number).name[3:]
    script = f"trap 'echo got {name}; exit 3' {name}; echo up; while :; do sleep 0.01; done"
    process = tool.start("run", "sh", "-c", script)
    assert process.stdout.readline() == "up\n"
    process.send_signal(number)
    assert process.communicate(timeout=10)[0] == f"got {name}\n"
    assert process.returncode == 3
    assert not tool.daemon_lives()


def test_terminals_interrupt_comes_once(tool):
    """^C reaches command and tool from the terminal, and the tool does not repeat it."""
    script = "trap 'echo got INT; got=1' INT; echo up; until [ $got ]; do sleep 0.05; done; sleep 0.5; echo end"
    pid, terminal = pty.fork()
    if not pid:
        os.execve(tool.path, ["simhca", "run", "sh", "-c", script], tool.env())
    output = b""
    sent = False
    try:
        while data := os.read(terminal, 1024):
            output += data
            if b"up" in output and not sent:
                sent = True
                os.write(terminal, b"\x03")
    except OSError:
        pass
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert output.count(b"got INT") == 1 and b"end" in output
    wait_until(lambda: not tool.daemon_lives(), 10, "the daemon has ended")


def test_foreground_of_the_terminal(tool):
    """The command may read from the terminal: it is in its foreground process group."""
    pid, terminal = pty.fork()
    if not pid:
        os.execve(tool.path, ["simhca", "run", "sh", "-c", "read line; echo got $line"], tool.env())
    os.write(terminal, b"words\n")
    output = b""
    try:
        while data := os.read(terminal, 1024):
            output += data
    except OSError:
        pass
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert b"got words" in output


def test_killed_tool_leaves_nothing(tool):
    process = tool.start("run", "sh", "-c", "echo $$; exec sleep 60")
    command = int(process.stdout.readline())
    process.kill()
    assert process.wait(10) == -signal.SIGKILL
    wait_until(lambda: not alive(command), 10, "the command has ended")
    wait_until(lambda: not tool.daemon_lives(), 10, "the daemon has ended")


def test_interrupted_while_the_daemon_starts(tool):
    process = tool.start("run", "true", FAKE_START_DELAY=30)
    wait_until((tool.runtime / "lock").exists, 10, "the daemon starts")
    process.terminate()
    assert process.wait(10) == 128 + signal.SIGTERM


def test_ignored_signals_stay_ignored(tool):
    """As under nohup, and python ignores SIGPIPE for itself only."""
    script = "trap '' HUP; exec \"$0\" run grep SigIgn /proc/self/status"
    result = subprocess.run(["sh", "-c", script, tool.path], env=tool.env(), capture_output=True,
                            text=True, timeout=60, check=True)
    assert int(result.stdout.split()[1], 16) == 1 << (signal.SIGHUP - 1)


def test_no_signal_is_blocked_in_the_command(tool):
    result = tool("run", "grep", "SigBlk", "/proc/self/status")
    assert int(result.stdout.split()[1], 16) == 0


def test_daemon_fails_to_start(tool):
    result = tool("run", "echo", "no", FAKE_FAIL=1)
    assert (result.returncode, result.stdout) == (125, "")
    assert result.stderr == "simhcad: the moon is in the wrong phase\n"


def test_daemon_dies_at_its_start(tool):
    result = tool("run", "true", FAKE_DIE_EARLY=1)
    assert result.returncode == 125 and "signal 6" in result.stderr


def test_daemon_not_there(tool, tmp_path):
    for part in ("bin", "lib"):
        (tmp_path / part).mkdir()
    (tmp_path / "bin" / "simhca").write_bytes(tool.path.read_bytes())
    (tmp_path / "bin" / "simhca").chmod(0o755)
    tool.path = tmp_path / "bin" / "simhca"
    result = tool("run", "true", PATH="/usr/bin:/bin")
    assert result.returncode == 125 and "simhcad" in result.stderr and "PATH" in result.stderr


def test_daemon_from_path(tool, tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "lib").symlink_to(tool.prefix / "lib")
    (tmp_path / "bin" / "simhca").write_bytes(tool.path.read_bytes())
    (tmp_path / "bin" / "simhca").chmod(0o755)
    tool.path = tmp_path / "bin" / "simhca"
    assert tool("run", "true", PATH=f"{tool.prefix}/bin:/usr/bin:/bin").returncode == 0


def test_daemon_dies_meanwhile(tool):
    """The command's failure is the one that counts, a crash of the device is not success."""
    script = f"kill -ABRT $(cat {tool.runtime}/pid); sleep 0.3; exit "
    result = tool("run", "sh", "-c", script + "0")
    assert result.returncode == 125 and "signal 6" in result.stderr
    assert tool("run", "sh", "-c", script + "9").returncode == 9


def test_daemon_of_another_run_dies_meanwhile(tool, tmp_path):
    """Its starter tells how it died; whoever joined it has lost the device no less."""
    first = tool.start("run", *SAYS_THAT_IT_RUNS)
    assert first.stdout.readline() == "up\n"
    second = tool.start("run", *until_there_is(tmp_path / "enough"))
    assert second.stdout.readline() == "up\n"
    os.kill(tool.daemon_pid(), signal.SIGKILL)
    (tmp_path / "enough").touch()
    assert "device is gone" in second.communicate(timeout=60)[1]
    assert second.returncode == 125
    first.terminate()
    stderr = first.communicate(timeout=60)[1]
    assert "device is gone" in stderr and "signal 9" in stderr


def test_daemon_ends_badly(tool):
    result = tool("run", "true", FAKE_END_STATUS=1)
    assert result.returncode == 125 and "status 1" in result.stderr
    assert tool("run", "false", FAKE_END_STATUS=1).returncode == 1


def test_daemon_does_not_end(tool):
    result = tool("run", "cat", tool.runtime / "pid", FAKE_END_DELAY=60)
    assert result.returncode == 125 and "killing it" in result.stderr
    assert not alive(int(result.stdout))


def test_daemons_words_are_shown(tool):
    assert tool("run", "sleep", "0.3", FAKE_SAY="simhcad: QP 5: bad key").stderr == \
        "simhcad: QP 5: bad key\n"


def test_daemon_that_does_not_answer(tool):
    result = tool("run", "true", FAKE_MUTE=1)
    assert result.returncode == 125 and "does not answer" in result.stderr


def test_no_reader_for_what_the_daemon_says(tool):
    """A closed stderr ends neither the tool nor its command."""
    read, write = os.pipe()
    os.close(read)
    process = subprocess.Popen([tool.path, "run", "sh", "-c", "sleep 0.3; exit 5"], stderr=write,
                               env=tool.env(FAKE_SAY="words"), stdin=subprocess.DEVNULL)
    os.close(write)
    assert process.wait(20) == 5
