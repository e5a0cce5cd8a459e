# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""simhcad as a process: its command line, its runtime directory, and what it says to clients and
tools that speak the protocols themselves, also badly. $SIMHCAD is the program."""
import array
import collections
import ctypes
import errno
import json
import mmap
import os
import pathlib
import pty
import random
import re
import select
import signal
import socket
import stat
import struct
import subprocess
import sys
import time

import pytest

from protocol import CONTROL_VERSION, KEEP, MAGIC, NUMBER, OPEN_CONTEXT, SIMHCAD, VERSION, Client, close_all, command

(GET_SEGMENT, CREATE_CHANNEL, ALLOC_ASYNC_FD, ALLOC_PD, DEALLOC_PD, CREATE_CQ, CREATE_QP, REG_MR, SET_AGENT,
 REREG_MR, DEREG_MR, REG_DMABUF_MR, COUNT) = (NUMBER[name] for name in (
    "GET_SEGMENT", "CREATE_CHANNEL", "ALLOC_ASYNC_FD", "ALLOC_PD", "DEALLOC_PD", "CREATE_CQ", "CREATE_QP", "REG_MR",
    "SET_AGENT", "REREG_MR", "DEREG_MR", "REG_DMABUF_MR", "COUNT"))


# ------------------------------------------------------------------------------- life of a daemon

def test_leaves_only_the_lock(daemon):
    assert set(os.listdir(daemon.directory)) == {"lock", "pid", "control", "tree"}
    with open(daemon.directory + "/pid") as file:
        assert int(file.read()) == daemon.process.pid
    assert daemon.stop() == 0
    assert os.listdir(daemon.directory) == ["lock"]


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGHUP])
def test_signals_end_it(daemon, sig):
    fds = daemon.client().open()
    assert daemon.stop(sig) == 0
    assert f"ending by signal {sig.value} (" in daemon.log
    close_all(fds)


def test_one_daemon_a_directory(daemon, start):
    second = start()
    assert not second.is_ready
    assert second.stop() == 1
    assert f"(pid {daemon.process.pid})" in second.log
    daemon.client().open()


def test_cleans_up_after_a_dead_one(daemon, start):
    daemon.process.kill()
    daemon.process.wait()
    os.makedirs(daemon.directory + "/tree/left/over")
    daemon.process.returncode = 0
    assert start().is_ready
    assert not os.path.exists(daemon.directory + "/tree/left")


def test_refuses_a_directory_open_to_others(start, directory):
    os.chmod(directory, 0o755)
    daemon = start()
    assert not daemon.is_ready and daemon.stop() == 1
    assert "chmod 700" in daemon.log


def test_refuses_a_link(start, directory):
    os.symlink(directory, directory + "/link")
    run = subprocess.run([SIMHCAD, "--runtime-dir", directory + "/link"], capture_output=True, text=True)
    assert run.returncode == 1 and "not a directory" in run.stderr


def test_refuses_a_name_too_long_for_sockets(directory):
    run = subprocess.run([SIMHCAD, "--runtime-dir", directory + "/" + 80 * "x"], capture_output=True,
                         text=True)
    assert run.returncode == 1 and run.stderr.count("\n") == 1 and "too long" in run.stderr


def test_runtime_dir_from_environment(directory):
    for variable, sub in (("SIMHCA_RUNTIME_DIR", ""), ("XDG_RUNTIME_DIR", "/simhca")):
        environment = {k: v for k, v in os.environ.items() if k != "SIMHCA_RUNTIME_DIR"}
        environment[variable] = directory
        process = subprocess.Popen([SIMHCAD], env=environment, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 10
        while not os.path.exists(directory + sub + "/pid") and time.monotonic() < deadline:
            time.sleep(0.01)
        process.terminate()
        process.communicate(timeout=10)
        assert process.returncode == 0
        assert os.path.exists(directory + sub + "/lock")


def test_notify_socket(start, directory):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind("\0simhcad-test-%d" % os.getpid())
        sock.settimeout(10)
        daemon = start(NOTIFY_SOCKET="@simhcad-test-%d" % os.getpid())
        assert sock.recv(100) == b"READY=1"
        daemon.stop()
        assert sock.recv(100) == b"STOPPING=1"


def test_log_that_nobody_reads(directory):
    """What does not fit into a pipe is lost, and the daemon goes on."""
    reader, writer = os.pipe()
    process = subprocess.Popen([SIMHCAD, "--runtime-dir", directory, "--log-level", "debug"], stderr=writer)
    os.close(writer)
    path = directory + "/tree/dev/infiniband/uverbs0"
    deadline = time.monotonic() + 10
    while not os.path.exists(directory + "/pid") and time.monotonic() < deadline:
        time.sleep(0.01)
    client = Client(path)
    close_all(client.open())
    for _ in range(2000):
        assert client.command(COUNT)[0] == errno.EOPNOTSUPP
    os.read(reader, 1 << 16)
    client.command(COUNT)
    process.terminate()
    assert process.wait(10) == 0
    assert b"messages found no room here" in os.read(reader, 1 << 16)
    os.close(reader)


def pid_in(directory):
    return int(pathlib.Path(directory, "pid").read_text())


def stop(pid, directory):
    """And waits for its end, of which its parent may hear late."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
        sock.connect(directory + "/control")
        sock.send(b'{"cmd":"stop"}')
        assert json.loads(sock.recv(1000)) == {"ok": True, "version": CONTROL_VERSION}
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")")[1].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            break
        if state == "Z":
            break
        time.sleep(0.01)


def test_daemonize(directory):
    subprocess.run([SIMHCAD, "--daemonize", "--runtime-dir", directory], check=True, timeout=30)
    pid = pid_in(directory)
    # It shares CPU time with who has started it, but no signals from the terminal.
    assert os.getsid(pid) == os.getsid(0)
    assert os.getpgid(pid) == pid
    stop(pid, directory)
    assert sorted(os.listdir(directory)) == ["lock", "simhcad.log"]
    with open(directory + "/simhcad.log") as file:
        assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} info: ", file.read())


def test_daemonize_fails_before_it_goes(directory):
    run = subprocess.run([SIMHCAD, "--daemonize", "--netdev", "nosuch", "--runtime-dir", directory],
                         capture_output=True, text=True, timeout=30)
    assert run.returncode == 2 and "nosuch" in run.stderr


def test_outlives_its_terminal(directory):
    """Also one that stops those who write to it from the background."""
    start = f"{SIMHCAD} --daemonize --runtime-dir {directory}"
    script = f"stty tostop; {start} --netdev nosuch; echo =$?=; {start}; echo =$?=; read line"
    shell, terminal = pty.fork()
    if not shell:
        os.execv("/bin/sh", ["sh", "-c", script])
    said = b""
    while said.count(b"=") < 4:
        assert select.select([terminal], [], [], 30)[0], said
        said += os.read(terminal, 1000)
    assert re.search(rb"nosuch.*=2=.*=0=", said, re.S), said
    os.close(terminal)
    assert os.WTERMSIG(os.waitpid(shell, 0)[1]) == signal.SIGHUP
    stop(pid_in(directory), directory)


# ---------------------------------------------------------------------------------- device tree

def test_tree(start):
    daemon = start("--devices", "2", "--device", "simhca1,link-layer=ib,lid=7", "--mtu", "1024")
    assert daemon.read("infiniband_verbs/abi_version") == "6"
    assert daemon.read("infiniband_verbs/uverbs1/ibdev") == "simhca1"
    assert daemon.read("infiniband_verbs/uverbs1/dev") == "231:193"
    assert daemon.read("infiniband_verbs/uverbs1/device/numa_node") == "-1"
    assert daemon.read("infiniband/simhca0/node_type") == "1: CA"
    assert daemon.read("infiniband/simhca0/ports/1/state") == "4: ACTIVE"
    assert daemon.read("infiniband/simhca0/ports/1/link_layer") == "Ethernet"
    assert daemon.read("infiniband/simhca0/ports/1/gids/1") == "0000:0000:0000:0000:0000:ffff:7f00:0001"
    assert daemon.read("infiniband/simhca0/ports/1/gids/7") == "0000:" * 7 + "0000"
    assert daemon.read("infiniband/simhca0/ports/1/gid_attrs/ndevs/1") == "lo"
    assert daemon.read("infiniband/simhca0/ports/1/gid_attrs/types/1") == "RoCE v2"
    for name in "types", "ndevs":  # of an index without a GID, as the kernel has it
        with pytest.raises(OSError) as caught:
            daemon.read(f"infiniband/simhca0/ports/1/gid_attrs/{name}/7")
        assert caught.value.errno == errno.EINVAL
    assert daemon.read("infiniband/simhca0/ports/1/pkeys/0") == "0xffff"
    assert daemon.read("infiniband/simhca1/ports/1/lid") == "0x7"
    assert daemon.read("infiniband/simhca1/ports/1/link_layer") == "InfiniBand"
    guids = [daemon.read(f"infiniband/simhca{i}/node_guid") for i in (0, 1)]
    assert guids[0] != guids[1]
    for i, guid in enumerate(guids):
        assert daemon.read(f"infiniband/simhca{i}/ports/1/gids/0") == "fe80:0000:0000:0000:" + guid
    assert stat.S_ISSOCK(os.stat(daemon.tree("dev/infiniband/uverbs1")).st_mode)
    with open(daemon.client().open()[0], "rb") as devmem:
        assert devmem.read(4) == struct.pack("I", VERSION)


def in_new_network(script, directory):
    """
    What the script writes in a network namespace of its own. Its $1 is the directory and $SIMHCAD the
    daemon; `wait_for WORD FILE` ends the one that is $pid if the file does not have the word.
    """
    functions = """
        wait_for() { i=0; until grep -q "$1" "$2" 2>/dev/null; do i=$((i+1)); [ $i -lt 500 ] || {
                echo "$2: $(cat $2), not $1"; kill $pid; exit 1; }; sleep 0.02; done; }
    """
    for unshare in ["unshare", "-n"], ["unshare", "-Urn"]:
        if not subprocess.run([*unshare, "ip", "link", "show"], capture_output=True).returncode:
            break
    else:
        pytest.skip("needs to make a network namespace")
    run = subprocess.run([*unshare, "sh", "-c", functions + script, "sh", directory], capture_output=True,
                         text=True, timeout=60, env={**os.environ, "SIMHCAD": SIMHCAD})
    if run.returncode == 77:
        pytest.skip("needs veth interfaces")
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def test_follows_the_interface(directory):
    script = """
        set -e
        ip link set lo up
        new_link() { ip link add eth7 type veth peer name eth8 && ip link set eth8 up; }
        new_link 2>/dev/null || exit 77
        "$SIMHCAD" --runtime-dir "$1" --netdev eth7 &
        pid=$!
        port="$1/tree/sys/class/infiniband/simhca0/ports/1"
        wait_for DOWN $port/state
        before=$(stat -c %y "$port/../..")
        ip link set eth7 up
        wait_for ACTIVE $port/state
        ip addr add 192.0.2.7/24 dev eth7
        wait_for ffff:c000:0207 $port/gids/1
        wait_for eth7 $port/gid_attrs/ndevs/1
        ip addr add 2001:db8::7/64 dev eth7 nodad
        wait_for 2001:0db8 $port/gids/2
        ip addr del 192.0.2.7/24 dev eth7
        wait_for 0000:0000:0000:0000:0000:0000:0000:0000 $port/gids/1
        wait_for 2001:0db8 $port/gids/2
        i=0; while cat $port/gid_attrs/types/1 2>/dev/null; do i=$((i+1)); [ $i -lt 500 ]; sleep 0.02; done
        ip link del eth7
        wait_for DOWN $port/state
        wait_for 0000:0000:0000:0000:0000:0000:0000:0000 $port/gids/2
        new_link
        ip link set eth7 up
        wait_for ACTIVE $port/state
        [ "$before" = "$(stat -c %y "$port/../..")" ] || { echo "the device looks new"; exit 1; }
        kill $pid
        wait $pid
    """
    in_new_network(script, directory)


def test_changes_that_the_kernel_could_not_tell(directory):
    """More of them than the socket holds, while there are no descriptors for other sockets, nor for files."""
    script = """
        ip link set lo up
        ip link add eth7 type veth peer name eth8 2>/dev/null || exit 77
        ip link set eth8 up; ip link set eth7 up
        "$SIMHCAD" --runtime-dir "$1" --netdev eth7 2>"$1/log" &
        pid=$!
        gid="$1/tree/sys/class/infiniband/simhca0/ports/1/gids/1"
        ip addr add 192.0.2.7/24 dev eth7
        wait_for ffff:c000:0207 $gid
        # As if others took the descriptors of its sockets to the kernel when those are closed, but one.
        for fd in $(ls /proc/$pid/fd | sort -n); do
            inode=$(readlink /proc/$pid/fd/$fd | sed -n 's/^socket:.\\(.*\\).$/\\1/p')
            [ "$inode" ] && grep -q " $inode *$" /proc/net/netlink && break
        done
        prlimit --nofile=$((fd + 1)):$(ulimit -H -n) --pid $pid || exit 1
        kill -STOP $pid
        for i in $(seq 1000); do
            echo "addr add 10.0.$((i / 250)).$((i % 250 + 1))/32 dev eth7"
            echo "addr del 10.0.$((i / 250)).$((i % 250 + 1))/32 dev eth7"
        done | ip -batch - || exit 1
        ip addr del 192.0.2.7/24 dev eth7
        ip addr add 192.0.2.8/24 dev eth7
        kill -CONT $pid
        wait_for "Too many open files" $1/log
        sleep 1
        prlimit --nofile=$(ulimit -H -n) --pid $pid || exit 1
        wait_for ffff:c000:0208 $gid
        ip addr del 192.0.2.8/24 dev eth7
        ip addr add 192.0.2.9/24 dev eth7
        wait_for ffff:c000:0209 $gid
        cat "$1/log"
        kill $pid
        wait $pid
    """
    said = in_new_network(script, directory)
    assert said.count("Too many open files") == 1, said


@pytest.mark.parametrize("is_journal", [True, False])
def test_levels_in_the_journal(directory, tmp_path, is_journal):
    """Where stderr is the stream of which systemd says that it is the journal's, a line begins with its level."""
    log = tmp_path / "stream"
    with log.open("w") as stream:
        status = os.fstat(stream.fileno())
        journal = f"{status.st_dev}:{status.st_ino + (not is_journal)}"
        process = subprocess.Popen([SIMHCAD, "--runtime-dir", directory], stderr=stream,
                                   env=os.environ | {"JOURNAL_STREAM": journal})
    while not pathlib.Path(directory, "pid").exists():
        time.sleep(0.01)
    # Not by a signal: TSan loses the one that comes while a thread's first blocking call has it make its state.
    stop(process.pid, directory)
    assert process.wait(10) == 0
    assert log.read_text() and all(line.startswith("<6>") == is_journal and ("simhcad: info: " in line) != is_journal
                                   for line in log.read_text().splitlines())


def test_a_log_file_that_is_full(start, directory, tmp_path):
    """By `ulimit -f`, which ends a program that does not expect it. It is said once, and what was lost is counted."""
    log = tmp_path / "log"
    daemon = start("--log-file", str(log))
    assert daemon.is_ready
    size = log.stat().st_size + 10
    subprocess.run(["prlimit", f"--fsize={size}:", "--pid", str(daemon.process.pid)], check=True)
    for _ in range(10):  # for whom there is no memory either
        daemon.client().command(OPEN_CONTEXT)
    assert log.stat().st_size == size
    subprocess.run(["prlimit", "--fsize=unlimited:", "--pid", str(daemon.process.pid)], check=True)
    daemon.client().open()
    assert daemon.stop() == 0
    assert daemon.log.count("the log file: File too large") == 1
    assert re.search(r"warning: \d+ messages found no room here", log.read_text())


def test_a_name_that_terminals_act_on(start):
    """A program is called what it likes, and who looks at the log sees no more of it than what can be printed."""
    comm = pathlib.Path("/proc/self/comm")
    before = comm.read_text().strip()
    daemon = start()
    comm.write_bytes(b"\x1b]0;x\x07\n\x9b31m")
    try:
        daemon.client().open()
    finally:
        comm.write_text(before)
    assert daemon.stop() == 0
    assert f"opened by process {os.getpid()} (?]0;x???31m)" in daemon.log
    assert "\x1b" not in daemon.log


@pytest.mark.parametrize("limit", [*range(4, 45, 4), 5, 10, 11, 12, 13, 47, 48, 49, 60])
def test_few_descriptors(directory, limit):
    """It works, or says how few there are."""
    ready, child_end = os.pipe()
    with subprocess.Popen(["prlimit", f"--nofile={limit}:{limit}", SIMHCAD, "--runtime-dir", directory,
                           "--ready-fd", "1", "--engines", "1"], stdout=child_end, text=True,
                          stderr=subprocess.PIPE) as process:
        os.close(child_end)
        works = os.read(ready, 1) == b"\n"
        os.close(ready)
        if works:
            process.terminate()
        log = process.communicate(timeout=20)[1]
    assert process.returncode == (0 if works else 1), log
    assert works or f"simhcad: error: {limit} open descriptors are the limit here (ulimit -n)" in log
    assert works == (limit >= 48)


# -------------------------------------------------------------------------------------- sessions

def eventfd_id(fd):
    with open(f"/proc/self/fdinfo/{fd}") as file:
        return re.search(r"eventfd-id: *(\d+)", file.read())[1]


def test_open_context(daemon):
    client = daemon.client()
    fds = client.open()
    devmem, segment, events, events_device, *doorbells = fds
    assert os.fstat(devmem).st_size == client.devmem_size
    assert os.fstat(segment).st_size == client.segment_size
    with mmap.mmap(segment, client.segment_size) as memory:
        assert struct.unpack_from("II", memory) == (VERSION, client.id)
    with pytest.raises((PermissionError, OSError)):
        mmap.mmap(devmem, client.devmem_size)
    assert client.can_access == 1
    # One for each CPU where there are two, else twice the same.
    cpus = sorted(os.sched_getaffinity(daemon.process.pid))
    if len(cpus) == 2:
        assert client.doorbell_cpus == cpus
    else:
        assert client.doorbell_cpus[0] == client.doorbell_cpus[1]
    assert (eventfd_id(doorbells[0]) != eventfd_id(doorbells[1])) == (len(cpus) == 2)
    os.write(events_device, 16 * b"x")
    assert os.read(events, 32) == 16 * b"x"
    # Asked again it is the same context, and a new pipe, which is the one that it gets then.
    status, body, _, again = client.command(OPEN_CONTEXT)
    assert status == 0 and struct.unpack_from("I", body)[0] == client.id
    os.write(again[3], 16 * b"y")
    again += client.ok(ALLOC_ASYNC_FD)[1]
    assert os.read(again[-1], 32) == 16 * b"y"
    assert os.fstat(again[-1]).st_ino != os.fstat(events).st_ino
    close_all(again)
    segment, more = client.ok(GET_SEGMENT, struct.pack("II", 0, 7))
    assert (segment, len(more)) == (struct.pack("Q", client.segment_size).ljust(40, b"\0"), 1)
    close_all(more)
    assert client.command(GET_SEGMENT, struct.pack("II", 0, 8))[0] == errno.EINVAL
    assert client.command(GET_SEGMENT, struct.pack("II", 200, 0))[0] == errno.EINVAL
    close_all(fds)


def test_nothing_is_left_of_a_client(daemon):
    before = daemon.fds()
    for _ in range(3):
        client = daemon.client()
        close_all(client.open())
        pd, _ = client.ok(ALLOC_PD)
        for _ in range(5):
            close_all(client.ok(CREATE_CHANNEL)[1])
        client.close()
    daemon.wait_until(lambda: daemon.fds() <= before)
    assert daemon.status()["devices"][0]["contexts"] == 0


def test_killed_client(daemon):
    before = daemon.fds()
    child = os.fork()
    if not child:
        client = daemon.client()
        client.open()
        client.ok(ALLOC_PD)
        buffer = array.array("B", bytes(4096))
        client.ok(REG_MR, struct.pack("QQQIIII", buffer.buffer_info()[0], 4096, buffer.buffer_info()[0], 0, 1, 0, 0))
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    daemon.wait_until(lambda: daemon.fds() <= before)


def test_context_outlives_the_process_that_opened_it(daemon):
    """A forked child keeps the connection: its parent's memory is gone, the context is not."""
    parent = daemon.client()
    child = os.fork()
    if not child:
        descriptors = parent.open()
        buffer = array.array("B", bytes(4096))
        parent.ok(ALLOC_PD)
        parent.ok(REG_MR, struct.pack("QQQIIII", buffer.buffer_info()[0], 4096, buffer.buffer_info()[0], 0, 1, 0, 0))
        os._exit(0 if descriptors else 1)
    os.waitpid(child, 0)
    pd, _ = parent.ok(ALLOC_PD)
    assert struct.unpack_from("I", pd)[0] == 1
    counts = daemon.status()["devices"][0]["counts"]
    assert counts["pds"] == 2 and counts["mrs"] == 1


def test_bad_requests(daemon):
    client = daemon.client()
    header = struct.pack("IHHII", MAGIC, VERSION, ALLOC_PD, 16, 0)
    assert client.raw(header)[0] == errno.EINVAL  # not open
    close_all(client.open())
    before = daemon.fds()
    assert client.raw(b"")[0] == errno.EPROTO
    assert client.raw(b"x")[0] == errno.EPROTO
    assert client.raw(header[:15])[0] == errno.EPROTO
    assert client.raw(b"\0" + header[1:])[0] == errno.EPROTO
    assert client.raw(header + b"x")[0] == errno.EPROTO
    assert client.raw(struct.pack("IHHII", MAGIC, VERSION, ALLOC_PD, 20, 0) + b"long")[0] == errno.EINVAL
    assert client.raw(10000 * b"x")[0] == errno.EMSGSIZE
    status, _, message, _ = client.raw(struct.pack("IHHII", MAGIC, 99, ALLOC_PD, 16, 0))
    assert status == errno.EPROTONOSUPPORT and "99" in message
    for number in (0, COUNT, 0xffff):
        assert client.command(number)[0] == errno.EOPNOTSUPP
    assert client.command(DEALLOC_PD, struct.pack("II", 12345, 0))[0] == errno.ENOENT
    assert client.command(SET_AGENT, struct.pack("Q", 4096))[0] == errno.EINVAL  # no descriptors
    # Without a socket for the answer, with one that is none, and with too many descriptors.
    client.raw(header, answer=False)
    client.raw(header, fds=[0], answer=False)
    with open("/dev/null") as null:
        client.raw(header, fds=[null.fileno()], answer=False)
        assert client.raw(header, fds=8 * [null.fileno()])[0] == 0
        client.raw(header, fds=60 * [null.fileno()])
        assert client.command(SET_AGENT, struct.pack("Q", 4096), fds=[null.fileno()] * 2)[0] == errno.EINVAL
    assert client.command(ALLOC_PD)[0] == 0
    daemon.wait_until(lambda: daemon.fds() <= before)


def test_kept_answers(daemon):
    """A socket that is named instead of coming along; descriptors are the command's then."""
    client, other = daemon.client(), daemon.client()
    for one in client, other:
        close_all(one.open())
    before = daemon.fds()
    sock, number = client.keep(ALLOC_PD)
    assert number
    with open("/dev/null") as null, sock:
        for bad in SET_AGENT, ALLOC_PD, COUNT:  # more than a command has, and less, kept or not
            body = struct.pack("Q", 4096) if bad == SET_AGENT else b""
            for count in 0, 1, 2, 8, 9, 60:
                for where in number, KEEP, number + 1:
                    if count:
                        socket.send_fds(client.sock, [command(bad, body, where)], count * [null.fileno()])
                    else:
                        client.sock.send(command(bad, body, where))
                assert client.command(ALLOC_PD)[0] == 0
        answers = [struct.unpack_from("2I", sock.recv(4096)) for _ in range(3 * 6)]
        assert {magic for magic, _ in answers} == {MAGIC}
        assert [status for _, status in answers] == \
            6 * [errno.EINVAL] + 6 * [0] + 6 * [errno.EOPNOTSUPP]
        # It is the other connection's business to name its own.
        other.sock.send(command(ALLOC_PD, answer=number))
        assert other.command(ALLOC_PD)[0] == 0
        sock.setblocking(False)
        with pytest.raises(BlockingIOError):
            sock.recv(1)
    daemon.wait_until(lambda: daemon.fds() <= before)  # it sees the end of it
    sock, _ = client.keep(ALLOC_PD)
    with sock:
        client.close()
        assert sock.recv(1) == b""


# struct simhca_answer_slot, in struct simhca_ctx_mem
SLOTS, SLOT_AT, SLOT_BYTES = 8, 192 + 128 + 8192, 64 + 512
IN_SLOT, PENDING, SLEEPING, ANSWERED = 0x80000000, 1, 2, 3
SAY_AGAIN = 0x7fff


def context_memory(client):
    """Segment 0, as the provider maps it."""
    fds = client.open()
    memory = mmap.mmap(fds[1], client.segment_size)
    close_all(fds)
    return memory


def answered(daemon, memory, slot, state=PENDING):
    """The status and body of what comes there, whatever the program has written beside it."""
    at = SLOT_AT + slot * SLOT_BYTES
    daemon.wait_until(lambda: struct.unpack_from("I", memory, at)[0] == ANSWERED)
    magic, status, length, kept = struct.unpack_from("4I", memory, at + 64)
    assert magic == MAGIC and not kept
    assert length == struct.unpack_from("I", memory, at + 4)[0]
    return status, memory[at + 64 + 176:at + 64 + length]


def test_answers_in_memory(daemon):
    """Slots are where the program says, and those of one context."""
    client, other = daemon.client(), daemon.client()
    memory, others = context_memory(client), context_memory(other)
    assert client.answer_slots == SLOTS
    for slot in range(SLOTS):
        for state in 0, PENDING, SLEEPING, 0xffffffff:  # nobody sleeps there
            memory[SLOT_AT + slot * SLOT_BYTES:SLOT_AT + (slot + 1) * SLOT_BYTES] = \
                struct.pack("II", state, 0xffffffff).ljust(SLOT_BYTES, b"\xff")
            client.sock.send(command(ALLOC_PD, answer=IN_SLOT | slot))
            status, body = answered(daemon, memory, slot)
            assert not status and len(body) == 8
            client.ok(DEALLOC_PD, body)
        struct.pack_into("I", memory, SLOT_AT + slot * SLOT_BYTES, PENDING)
        client.sock.send(command(COUNT, answer=IN_SLOT | slot))
        assert answered(daemon, memory, slot) == (errno.EOPNOTSUPP, b"")
    assert not any(others[SLOT_AT:SLOT_AT + SLOTS * SLOT_BYTES])
    # There are no others; what asks for them is carried out all the same.
    memory[SLOT_AT:SLOT_AT + SLOTS * SLOT_BYTES] = bytes(SLOTS * SLOT_BYTES)
    for slot in SLOTS, SLOTS + 1, 1 << 16, IN_SLOT - 2:
        client.sock.send(command(ALLOC_PD, answer=IN_SLOT | slot))
    client.ok(ALLOC_PD)
    assert not any(memory[SLOT_AT:SLOT_AT + SLOTS * SLOT_BYTES])
    # Descriptors do not come this way, and none is left behind.
    before = daemon.fds()
    client.sock.send(command(CREATE_CHANNEL, answer=IN_SLOT))
    assert not answered(daemon, memory, 0)[0]
    client.sock.send(command(GET_SEGMENT, struct.pack("II", 0, 0), answer=IN_SLOT | 1))
    assert not answered(daemon, memory, 1)[0]
    daemon.wait_until(lambda: daemon.fds() <= before + 1)
    # Who has it open a second time has no slots, and before it is open there are none.
    close_all(client.open())
    assert client.answer_slots == 0
    third = daemon.client()
    third.sock.send(command(OPEN_CONTEXT, answer=IN_SLOT))
    close_all(third.open())


def who_is_known(daemon):
    """A client, its command for a region, which was carried out, and the memory of that."""
    client = daemon.client()
    close_all(client.open())
    client.ok(ALLOC_PD)
    buffer = array.array("B", bytes(4096))
    region = struct.pack("QQQIIII", buffer.buffer_info()[0], 4096, buffer.buffer_info()[0], 0, 1, 0, 0)
    client.ok(REG_MR, region)
    return client, region, buffer


def test_a_process_that_is_not_known(daemon):
    """A child's first use of its memory is asked for twice, the second time with proof of who it is."""
    client, region, _buffer = who_is_known(daemon)
    child = os.fork()
    if not child:
        try:
            statuses = [client.command(REG_MR, region)[0] for _ in range(3)]
            os._exit(0 if statuses == [SAY_AGAIN, 0, 0] else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    client.ok(REG_MR, region)


def test_rereg_by_a_process_that_is_not_known(daemon):
    """What a child's first command has waited for, until the child was known, is not its registration anew."""
    client, region, _buffer = who_is_known(daemon)
    known = client.ok(REG_MR, region)[0]
    again = struct.pack("IIQQQIIII", *struct.unpack_from("I", known), 4, 0, 0, 0, 0, 0, 0, 0)
    child = os.fork()
    if not child:
        try:
            first = client.command(REREG_MR, again)[0]
            second, body, _, _ = client.command(REREG_MR, again)
            os._exit(0 if (first, second, body[:12]) == (SAY_AGAIN, 0, known[:12]) else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0


def test_many_regions_of_a_file_go_at_once(daemon):
    """None stays as too many commands wait."""
    client = daemon.client()
    close_all(client.open())
    client.ok(ALLOC_PD)
    file = os.memfd_create("many")
    os.ftruncate(file, 4096)
    request = struct.pack("QQQQIIII", 0, 4096, 0, 0, 0, 1, 0, 0)
    regions = [client.ok(REG_DMABUF_MR, request, [file])[0][:4] for _ in range(120)]
    answers, number = client.keep(ALLOC_PD)
    daemon.process.send_signal(signal.SIGSTOP)
    for region in regions:
        client.sock.send(command(DEREG_MR, region + bytes(4), number))
    daemon.process.send_signal(signal.SIGCONT)
    assert {struct.unpack_from("4I", answers.recv(4096))[1] for _ in regions} == {0}
    assert daemon.status()["devices"][0]["counts"]["mrs"] == 0
    answers.close()
    os.close(file)


def test_a_process_that_is_not_known_among_others(daemon):
    """Between its two attempts one that is known sends as well, and takes no proof from it."""
    client, region, _buffer = who_is_known(daemon)
    (asked, was_asked), (go_on, goes_on) = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        try:
            first = client.command(REG_MR, region)[0]
            os.write(was_asked, b"1")
            os.read(go_on, 1)
            second = client.command(REG_MR, region)[0]
            os._exit(0 if (first, second) == (SAY_AGAIN, 0) else 1)
        finally:
            os._exit(2)
    assert os.read(asked, 1)
    client.ok(REG_MR, region)
    os.write(goes_on, b"1")
    assert os.waitpid(child, 0)[1] == 0
    close_all([asked, was_asked, go_on, goes_on])


def request_size(client, number):
    """Bytes, as the daemon has them from the ABI's header."""
    return int(re.search(r"should have (\d+)$", client.command(number, bytes(1))[2])[1])


def test_noise(daemon):
    """Requests of the right size with contents that now and then make sense: any answer will do,
    but an answer, and some of them are obeyed."""
    noise = random.Random(1)
    client = daemon.client()
    close_all(client.open())
    sizes = {number: request_size(client, number) for number in range(1, COUNT)}
    # Without these, nothing makes sense; and a QP without its type, PD and CQs is none.
    def new_pd_and_cq():
        pd = client.ok(ALLOC_PD)[0]
        cq = client.ok(CREATE_CQ, struct.pack("24xI", 8).ljust(sizes[CREATE_CQ], b"\0"))[0]
        return struct.unpack_from("I", pd)[0], struct.unpack_from("I", cq)[0]

    handles, done = [*new_pd_and_cq()], collections.Counter()
    for _ in range(5000):
        number = noise.randrange(1, COUNT)
        words = [noise.choice((0, 0, 0, 0, 1, 2, noise.randrange(256), noise.choice(handles)))
                 for _ in range((sizes[number] + 3) // 4)]
        if number == CREATE_QP:
            pd, cq = new_pd_and_cq()  # the noise may have destroyed older ones
            words[4:8] = noise.choice((2, 3, 4)), pd, cq, cq
        body = struct.pack(f"{len(words)}I", *words)[:sizes[number]]
        status, reply, message, fds = client.command(number, body)
        close_all(fds)
        assert "bytes and should have" not in message
        done[number] += not status
        if not status and len(reply) >= 4:
            handles.append(struct.unpack_from("I", reply)[0])
        for size in (0, 8):
            if size < len(body):
                close_all(client.command(number, body[:size])[3])
    for name in "CREATE_CQ", "CREATE_QP", "CREATE_SRQ", "REG_MR", "DESTROY_QP":
        assert done[NUMBER[name]], f"{name} was never obeyed"
    assert daemon.process.poll() is None
    client.close()
    daemon.wait_until(lambda: daemon.status()["devices"][0]["contexts"] == 0)


def test_client_that_takes_no_answers(daemon):
    """The daemon neither waits for it nor keeps what it cannot deliver."""
    client = daemon.client()
    close_all(client.open())
    before = daemon.fds()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    request = struct.pack("IHHII", MAGIC, VERSION, CREATE_CHANNEL, 16, 0)
    for _ in range(500):
        socket.send_fds(client.sock, [request], [theirs.fileno()])
    assert daemon.client().command(OPEN_CONTEXT)[0] == 0
    ours.close()
    theirs.close()
    daemon.wait_until(lambda: daemon.fds() <= before)


def test_agent_mode(start):
    daemon = start("--memory", "agent")
    client = daemon.client()
    close_all(client.open())
    assert client.can_access == 0
    assert daemon.status()["devices"][0]["context"][0]["memory"] == "agent"
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    bounce = os.memfd_create("bounce", os.MFD_ALLOW_SEALING)
    os.ftruncate(bounce, 1 << 20)
    status, _, message, _ = client.command(SET_AGENT, struct.pack("Q", 1 << 20),
                                           [theirs.fileno(), bounce])
    assert status in (0, errno.EINVAL, errno.EPERM), message
    client.close()
    daemon.wait_until(lambda: daemon.status()["devices"][0]["contexts"] == 0)


def connections_of_another(daemon, number):
    """A process that has so many; it ends with its standard input."""
    process = subprocess.Popen(
        [sys.executable, "-c", "import sys\nfrom protocol import Client\n"
         "held = [Client(sys.argv[1]) for _ in range(int(sys.argv[2]))]\n"
         "print('there', flush=True)\nsys.stdin.read()",
         daemon.tree("dev/infiniband/uverbs0"), str(number)],
        env={**os.environ, "PYTHONPATH": os.path.dirname(__file__)}, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"there\n"
    return process


def test_descriptors_run_out(start):
    """With the table full new clients wait, and are served when others go."""
    daemon = start()
    subprocess.run(["prlimit", "--nofile=64:64", "--pid", str(daemon.process.pid)], check=True)
    others = [connections_of_another(daemon, 10) for _ in range(9)]
    client = daemon.client()
    time.sleep(0.6)
    with open(f"/proc/{daemon.process.pid}/stat") as file:
        before = sum(map(int, file.read().rsplit(")")[1].split()[11:13]))
    time.sleep(0.5)
    with open(f"/proc/{daemon.process.pid}/stat") as file:
        after = sum(map(int, file.read().rsplit(")")[1].split()[11:13]))
    assert after - before < 20  # clock ticks of 10 ms
    for other in others:
        other.communicate()
    close_all(client.open())
    client.close()
    daemon.stop()
    assert daemon.log.count("new connections have to wait") == 1


# --------------------------------------------------------------------------------- control socket

def test_control_requests(daemon):
    with daemon.control() as sock:
        for request in (b"", b"x", b"[]", b"{}", b'{"cmd":1}', b'{"cmd":"fly"}', b'{"cmd":"\xff"}',
                        b'{"lease":true}', b'{"cmd":"lease","version":0}', b'{"cmd":"lease","version":1}',
                        b'{"cmd":"lease","version":"%d"}' % CONTROL_VERSION,
                        1000 * b"[", 5000 * b" "):
            sock.send(request)
            answer = json.loads(sock.recv(1000))
            assert answer["ok"] is False and answer["error"] and answer["version"] == CONTROL_VERSION
        sock.send(json.dumps({"cmd": "lease", "version": CONTROL_VERSION}).encode())
        answer = json.loads(sock.recv(1000))
        assert answer["ok"] and answer["pid"] == daemon.process.pid
        assert "--netdev=lo" in answer["options"].split()
        request = b'{"cmd":"lease"}'
        for length, error in (1024, None), (1025, "a request has at most 1024 bytes"):
            sock.send(request.ljust(length))
            assert json.loads(sock.recv(1000)).get("error") == error
    client = daemon.client()
    close_all(client.open())
    status = daemon.status()
    assert status["pid"] == daemon.process.pid and status["runtime_dir"] == daemon.directory
    device, = status["devices"]
    assert device["name"] == "simhca0" and device["state"] == "ACTIVE" and device["mtu"] == 4096
    assert device["gids"][1].endswith("ffff:7f00:0001")
    context, = device["context"]
    assert context["pid"] == os.getpid() and context["memory"] == "process_vm"
    with open("/proc/self/comm") as file:
        assert context["comm"] == file.read().strip()


def test_thousand_contexts(daemon):
    clients = [daemon.client() for _ in range(1000)]
    for client in clients:
        close_all(client.open())
    device, = daemon.status()["devices"]
    assert device["contexts"] == 1000 and len(device["context"]) == 1000
    for client in clients:
        client.close()
    daemon.wait_until(lambda: daemon.status()["devices"][0]["contexts"] == 0)


def test_stop(daemon):
    with daemon.control() as sock:
        sock.send(b'{"cmd":"stop"}')
        assert json.loads(sock.recv(1000)) == {"ok": True, "version": CONTROL_VERSION}
    assert daemon.process.wait(10) == 0


def lease(daemon):
    sock = daemon.control()
    sock.send(b'{"cmd":"lease"}')
    assert json.loads(sock.recv(1000))["ok"]
    return sock


def test_captive(start):
    daemon = start("--captive")
    first, second = lease(daemon), lease(daemon)
    daemon.status()  # no lease
    first.close()
    time.sleep(0.2)
    assert daemon.process.poll() is None
    second.close()
    assert daemon.process.wait(10) == 0
    assert os.listdir(daemon.directory) == ["lock"]


def test_who_sends_nothing_further(start):
    """Answers come to who has shut down its direction, as `nc -N` does; and that returns a lease."""
    daemon = start("--captive")
    with lease(daemon) as leased:
        for request in b'{"cmd":"lease","version":0}', b'{"cmd":"status"}', b'{"cmd":"qp"}':
            with daemon.control() as sock:
                sock.send(request)
                sock.shutdown(socket.SHUT_WR)
                assert json.loads(sock.recv(1000))["version"] == CONTROL_VERSION
                assert sock.recv(1000) == b""
        leased.shutdown(socket.SHUT_WR)
        assert leased.recv(1000) == b""
        assert daemon.process.wait(10) == 0


def test_captive_without_anybody(start):
    daemon = start("--captive")
    began = time.monotonic()
    assert daemon.process.wait(20) == 0
    assert 8 < time.monotonic() - began < 15


def test_idle_daemon_sleeps(daemon):
    client = daemon.client()
    fds = client.open()
    time.sleep(0.3)
    tasks = f"/proc/{daemon.process.pid}/task"

    def switches():
        total = 0
        for task in os.listdir(tasks):
            with open(f"{tasks}/{task}/status") as file:
                total += sum(int(n) for n in re.findall(r"ctxt_switches:\s*(\d+)", file.read()))
        return total
    before = switches()
    time.sleep(1)
    assert switches() - before < 50
    close_all(fds)


def threads(daemon):
    names = []
    for task in os.listdir(f"/proc/{daemon.process.pid}/task"):
        with open(f"/proc/{daemon.process.pid}/task/{task}/comm") as file:
            names.append(file.read().strip())
    return names


def test_engine_threads(start):
    names = threads(start("--engines", "3"))
    assert {"simhca-engine/0", "simhca-engine/1", "simhca-engine/2", "simhca-fault", "simhca-pager",
            "simhca-chores", "simhcad"} == set(names)
    assert names.count("simhca-fault") == 4


def test_fault_workers(start):
    assert threads(start("--fault-workers", "7")).count("simhca-fault") == 7


@pytest.fixture
def libc():
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p
    return libc


def take_cpu(libc, tid):
    """The thread has none until give_cpu()."""
    seize, interrupt, wait_for_threads = 0x4206, 0x4207, 0x40000000
    for request in seize, interrupt:
        assert libc.ptrace(request, tid, None, None) == 0, os.strerror(ctypes.get_errno())
    assert os.waitpid(tid, wait_for_threads)[0] == tid


def give_cpu(libc, tid):
    detach = 17
    assert libc.ptrace(detach, tid, None, None) == 0, os.strerror(ctypes.get_errno())


def test_ends_though_engines_have_no_cpu(daemon, libc):
    """A busy machine can keep them from it for seconds. Nothing holds them up: they are waited for."""
    tasks = pathlib.Path(f"/proc/{daemon.process.pid}/task").iterdir()
    engines = [int(task.name) for task in tasks if (task / "comm").read_text().startswith("simhca-engine")]
    assert engines
    for tid in engines:
        take_cpu(libc, tid)
    daemon.process.send_signal(signal.SIGTERM)
    time.sleep(7)  # longer than those are waited for that a client's memory holds up
    for tid in engines:
        give_cpu(libc, tid)
    daemon.process.wait(30)  # another signal could come after it has given up its handlers
    assert daemon.stop() == 0
    assert "cannot be ended" not in daemon.log
