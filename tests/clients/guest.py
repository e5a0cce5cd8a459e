# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""A guest of QEMU's that runs, and how it is moved to another QEMU."""
import json
import socket
import struct

from common import TIME_LIMIT, expect_success, wait_until

QEMU = "qemu-system-x86_64"
MEMORY = 32 << 20  # bytes
PAGE = 4096
COUNTER = 0x7e00
COUNTER_PAGE = COUNTER - COUNTER % PAGE

# A boot sector in place of an operating system. It fills 64 KiB segments 0x2000 to 0x8000, once;
# then it counts without end.
BOOT_SECTOR = bytes.fromhex(
    "fa 31c0 8ed8"         # cli; ds = 0
    "bb 0020"              # bx = 0x2000
    "8ec3 31ff"            # segment: es = bx; di = 0
    "89f8 01d8 ab"         # word: *es:di++ = di + bx
    "85ff 75f7"            # until di is 0 again: word
    "81c3 0010"            # bx += 0x1000
    "81fb 0090 72e9"       # below 0x9000: segment
    "66 ff06 007e"         # again: ++*(uint32_t *)COUNTER
    "ebf9").ljust(510, b"\0") + b"\x55\xaa"


class Guest:
    """A QEMU, and its monitor."""

    def __init__(self, directory, name):
        self.directory = directory
        self.monitor = directory / f"{name}.monitor"
        self.argv = [QEMU, "-machine", "pc,accel=tcg", "-m", f"{MEMORY >> 20}M", "-nodefaults",
                     "-display", "none", "-qmp", f"unix:{self.monitor},server=on,wait=off",
                     "-drive", f"if=ide,format=raw,file={directory / 'disk'}"]
        self.stream = None

    def connect(self, program):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(TIME_LIMIT)
            wait_until(lambda: not sock.connect_ex(str(self.monitor)) or not program.running,
                       TIME_LIMIT, "the monitor answers")
            assert program.running, program.result()
            self.stream = sock.makefile("rw")
        self.stream.readline()  # greets
        self("qmp_capabilities")

    def __call__(self, command, **arguments):
        self.stream.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self.stream.flush()
        while "event" in (answer := json.loads(self.stream.readline())):
            pass
        assert "return" in answer, answer
        return answer["return"]

    def memory(self, start=0, size=MEMORY):
        path = self.directory / "memory"
        self("pmemsave", val=start, size=size, filename=str(path))
        return path.read_bytes()

    def rounds(self):
        return struct.unpack("<I", self.memory(COUNTER, 4))[0]

    def runs(self):
        before = self.rounds()
        wait_until(lambda: self.rounds() > before + 1, TIME_LIMIT, "the guest runs")

    def quit(self, program):
        self("quit")
        expect_success(program.finish())


def migrate(here, there, address, port, pin_all):
    """
    All of its memory is there, and it goes on counting. By chunks memory is registered when it is
    needed. Of pages that the guest keeps changing QEMU 7.2 without KVM may not send the last state:
    its trace has no write for them then.
    """
    directory = here.new_directory()
    (directory / "disk").write_bytes(BOOT_SECTOR)
    here.give(directory / "disk")
    source, target = Guest(directory, "source"), Guest(directory, "target")
    uri = f"rdma:{address}:{port}"
    first = here.start(*source.argv)
    source.connect(first)
    source.runs()
    # -S: it does not run on before its memory was looked at.
    second = there.start(*target.argv, "-S", "-incoming", "defer")
    target.connect(second)
    for guest in source, target:
        guest("migrate-set-capabilities",
              capabilities=[{"capability": "rdma-pin-all", "state": pin_all}])
    before = source.rounds()
    target("migrate-incoming", uri=uri)
    source("migrate", uri=uri)
    wait_until(lambda: source("query-migrate")["status"] not in ("setup", "active", "device"),
               TIME_LIMIT, "the migration ends")
    moved = source("query-migrate")
    assert moved["status"] == "completed", (moved, first.stderr, second.stderr)
    wait_until(lambda: target("query-status")["status"] == "paused", TIME_LIMIT, "it has arrived")
    assert source("query-status")["status"] == "postmigrate"
    left, came = source.memory(), target.memory()
    assert left[:COUNTER_PAGE] == came[:COUNTER_PAGE]
    assert left[COUNTER_PAGE + PAGE:] == came[COUNTER_PAGE + PAGE:]
    assert left[0x20000:0x90000] == b"".join(
        struct.pack("<H", (di + bx) & 0xffff) for bx in range(0x2000, 0x9000, 0x1000)
        for di in range(0, 0x10000, 2))
    assert before <= target.rounds() <= source.rounds()
    source.quit(first)
    target("cont")
    target.runs()
    target.quit(second)
