# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""What speaks to simhcad without a provider: the daemon as a process, and the protocols of its
sockets, also badly."""
import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = os.path.abspath(os.environ["SIMHCA_BUILD"])
SIMHCAD = os.environ.get("SIMHCAD") or os.path.join(BUILD, "bin", "simhcad")

MAGIC = 0x53484341
ABI = ROOT / "kernel-abi"
VERSION = int(re.search(r"SIMHCA_ABI_VERSION (\d+)u", ABI.joinpath("simhca-abi.h").read_text())[1])
CONTROL_VERSION = int(re.search(r"CONTROL_VERSION (\d+)", (ROOT / "common/control_protocol.h").read_text())[1])
# The commands' names in the order of their numbers, which begin at 1; the last one is their count.
COMMANDS = [*re.findall(r"^\tX\((\w+)\)", ABI.joinpath("simhca-abi-cmd.h").read_text(), re.M), "COUNT"]
NUMBER = {name: 1 + i for i, name in enumerate(COMMANDS)}
OPEN_CONTEXT = NUMBER["OPEN_CONTEXT"]
KEEP = 0xffffffff  # for the answer's socket, which comes along


class Daemon:
    def __init__(self, directory, *args, **env):
        self.directory = directory
        ready, child_end = os.pipe()
        self.log_file = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [SIMHCAD, "--runtime-dir", directory, "--ready-fd", str(child_end), "--log-level", "debug",
             *args],
            pass_fds=[child_end], stderr=self.log_file, env={**os.environ, **env})
        os.close(child_end)
        self.is_ready = os.read(ready, 1) == b"\n"
        assert os.read(ready, 1) == b""
        os.close(ready)

    def tree(self, path):
        return os.path.join(self.directory, "tree", path)

    def read(self, path):
        with open(self.tree("sys/class/" + path)) as file:
            return file.read().rstrip("\n")

    def control(self):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sock.connect(os.path.join(self.directory, "control"))
        return sock

    def client(self, number=0):
        return Client(self.tree(f"dev/infiniband/uverbs{number}"))

    def status(self):
        with self.control() as sock:
            sock.send(b'{"cmd":"status"}')
            text, fds, _, _ = socket.recv_fds(sock, 65536, 1)
            assert json.loads(text) == {"ok": True, "version": CONTROL_VERSION, "memfd": True}
            with os.fdopen(fds[0], "rb") as file:
                return json.load(file)

    def fds(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def wait_until(self, condition):
        deadline = time.monotonic() + 10
        while not condition():
            assert time.monotonic() < deadline, "did not happen within 10 s"
            time.sleep(0.01)

    def stop(self, sig=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(sig)
        self.process.wait(30)
        self.log_file.seek(0)
        self.log = self.log_file.read()
        return self.process.returncode


def command(number, body=b"", answer=0):
    """The datagram; answer: where the answer goes, by the number of a kept socket."""
    return struct.pack("IHHII", MAGIC, VERSION, number, 16 + len(body), answer) + body


class Client:
    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.connect(path)

    def keep(self, number, body=b""):
        """Sends a command whose answer's socket is to be kept; the socket, and its number."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(10)
        with theirs:
            socket.send_fds(self.sock, [command(number, body, KEEP)], [theirs.fileno()])
        return ours, struct.unpack_from("4I", ours.recv(4096))[3]

    def raw(self, data, fds=(), answer=True):
        """Sends a datagram; the answer's status, body, message and descriptors."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours, theirs:
            ours.settimeout(10)
            socket.send_fds(self.sock, [data], ([theirs.fileno()] if answer else []) + list(fds))
            theirs.close()
            if not answer:
                return None
            data, got, flags, _ = socket.recv_fds(ours, 4096, 16)
            assert len(data) >= 176, "the daemon gave no answer"
            magic, status, length, kept = struct.unpack_from("4I", data)
            assert magic == MAGIC and length == len(data) and not kept
            message = data[16:176].split(b"\0")[0].decode()
            assert bool(status) == bool(message)
            return status, data[176:], message, got

    def command(self, number, body=b"", fds=()):
        return self.raw(command(number, body), fds)

    def ok(self, number, body=b"", fds=()):
        status, body, message, got = self.command(number, body, fds)
        assert status == 0, message
        return body, got

    def open(self):
        body, fds = self.ok(OPEN_CONTEXT)
        (self.id, self.can_access, self.devmem_size, self.segment_size,
         *self.doorbell_cpus, self.answer_slots, _) = struct.unpack("IIQQIIII", body)
        assert len(fds) == 6
        return fds

    def close(self):
        self.sock.close()


def close_all(fds):
    for fd in fds:
        os.close(fd)


@contextlib.contextmanager
def daemons(directory):
    """start(*arguments, **environment): a daemon in the directory. They end with the context, as
    they should."""
    started = []

    def start(*args, **env):
        started.append(Daemon(directory, *args, **env))
        return started[-1]
    yield start
    for daemon in started:
        status = daemon.stop()
        assert status is not None and status >= 0, daemon.log
        assert "Sanitizer" not in daemon.log, daemon.log
