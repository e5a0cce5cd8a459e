#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""A simhcad that has no device: the runtime directory, the lock and the admin protocol only.

The tests of the tool put it beside a copy of `simhca`. FAKE_* variables make it behave badly.
"""

import fcntl
import json
import os
import selectors
import signal
import socket
import sys
import time


def setting(name):
    return os.environ.get("FAKE_" + name)


VERSION = int(setting("VERSION"))


def parse(arguments):
    given = {}
    rest = iter(arguments)
    for word in rest:
        name, equals, value = word[2:].partition("=")
        if name in ("runtime-dir", "ready-fd") and not equals:
            value = next(rest)
        given[name] = value
    return given


class Daemon:
    def __init__(self, directory, options, captive):
        self.directory = directory
        self.options = options
        self.captive = captive
        self.leases = set()
        self.started = time.monotonic()
        self.running = True
        self.ends = None
        self.selector = selectors.DefaultSelector()
        path = directory + "/control"
        if os.path.exists(path):
            os.unlink(path)
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(path)
        self.listener.listen(64)
        self.selector.register(self.listener, selectors.EVENT_READ)

    def status(self):
        counts = {"pds": 1, "mrs": 2, "mws": 0, "cqs": 3, "qps": 4, "carried": 3, "srqs": 0, "ahs": 5,
                  "xrcds": 6, "dms": 7}
        context = {"id": 7, "pid": 4242, "comm": setting("COMM") or "pingpong", "memory": "agent", "counts": counts}
        device = {
            "name": "simhca0", "link_layer": "Ethernet", "netdev": "lo", "state": "ACTIVE",
            "mtu": 4096, "node_guid": "0200:0000:0000:0001", "gids": ["::1"], "contexts": 1,
            "counts": counts, "context": [context],
        }
        return {
            "version": "0", "pid": os.getpid(), "uptime_s": int(time.monotonic() - self.started),
            "runtime_dir": self.directory, "captive": self.captive, "leases": len(self.leases), "devices": [device],
        }

    def answer(self, client, command):
        if command == "lease":
            self.leases.add(client)
            reply = {"ok": True, "options": self.options, "pid": os.getpid()}
        elif command == "stop":
            if setting("REFUSE_STOP"):
                reply = {"ok": False, "error": setting("REFUSAL") or "not today"}
            else:
                self.running = False
                reply = {"ok": True}
        elif command == "status":
            memfd = os.memfd_create("status")
            os.write(memfd, json.dumps(self.status()).encode())
            reply = {"ok": True, "version": VERSION, "memfd": True}
            socket.send_fds(client, [json.dumps(reply).encode()], [memfd])
            os.close(memfd)
            return
        else:
            reply = {"ok": False, "error": f"no command {command}"}
        client.send(json.dumps({**reply, "version": VERSION}).encode())

    def serve(self, client):
        data = client.recv(65536)
        if data:
            if not setting("MUTE"):
                self.answer(client, json.loads(data)["cmd"])
            return
        self.selector.unregister(client)
        if client in self.leases:
            self.leases.remove(client)
            if self.captive and not self.leases:
                # As the real one, while a program that it has served is on its way out.
                self.ends = time.monotonic() + float(setting("STAY") or 0)
                self.running = bool(setting("STAY"))
        if self.running or not setting("LINGER"):
            client.close()

    def run(self):
        while self.running:
            if self.ends and time.monotonic() > self.ends:
                break
            for key, _ in self.selector.select(self.ends and 0.05):
                if key.fileobj is self.listener:
                    client = self.listener.accept()[0]
                    self.selector.register(client, selectors.EVENT_READ)
                else:
                    self.serve(key.fileobj)


def main():
    given = parse(sys.argv[1:])
    directory = given["runtime-dir"]
    record = setting("RECORD")
    if record:
        with open(record, "a", encoding="utf-8") as out:
            print(json.dumps({"argv": sys.argv[1:], "preload": os.environ.get("LD_PRELOAD"),
                              "fds": sorted(map(int, os.listdir("/proc/self/fd")))[:-1],
                              "sid": os.getsid(0), "pgid": os.getpgid(0)}), file=out)
    if given.get("mtu") == "7":
        print("simhcad: --mtu 7: must be 256, 512, 1024, 2048 or 4096", file=sys.stderr)
        sys.exit(2)
    if setting("FAIL"):
        print("simhcad: the moon is in the wrong phase", file=sys.stderr)
        sys.exit(1)
    if setting("DIE_EARLY"):
        os.kill(os.getpid(), signal.SIGABRT)
    os.makedirs(directory, exist_ok=True)
    lock = open(directory + "/lock", "w", encoding="utf-8")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("simhcad: another daemon has the lock", file=sys.stderr)
        sys.exit(1)
    time.sleep(float(setting("START_DELAY") or 0))
    daemon = Daemon(directory, setting("OPTIONS") or "", "captive" in given)
    if "daemonize" in given and os.fork():
        os._exit(0)
    with open(directory + "/pid", "w", encoding="utf-8") as out:
        print(os.getpid(), file=out)
    ready = int(given["ready-fd"])
    os.write(ready, b"\n")
    os.close(ready)
    if setting("SAY"):
        print(setting("SAY"), file=sys.stderr, flush=True)
    daemon.run()
    daemon.listener.close()
    time.sleep(float(setting("END_DELAY") or 0))
    os._exit(int(setting("END_STATUS") or 0))


main()
