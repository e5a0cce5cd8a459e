#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Runs commands in the guest for remote.py, which has the protocol: one a connection, on TCP port 7."""
import json
import os
import signal
import socket
import struct
import subprocess
import threading


def forward(stream, kind, connection, lock):
    while chunk := os.read(stream.fileno(), 4096):
        with lock:
            connection.sendall(struct.pack(">BI", kind, len(chunk)) + chunk)


def end_with(connection, process):
    """Who hangs up ends the command."""
    try:
        while connection.recv(1):
            pass
    except OSError:
        pass
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)


def serve(connection):
    with connection, connection.makefile("r") as lines:
        argv = json.loads(lines.readline())
        lock = threading.Lock()
        with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, cwd="/root",
                              stderr=subprocess.PIPE, start_new_session=True) as process:
            threading.Thread(target=end_with, args=(connection, process), daemon=True).start()
            pumps = [threading.Thread(target=forward, args=(stream, kind, connection, lock))
                     for kind, stream in ((1, process.stdout), (2, process.stderr))]
            for pump in pumps:
                pump.start()
            for pump in pumps:
                pump.join()
            status = process.wait() & 0xff
        connection.sendall(struct.pack(">BI", 0, status))


def main():
    with socket.create_server(("0.0.0.0", 7), backlog=32) as server:
        while True:
            threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()


main()
