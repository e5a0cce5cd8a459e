#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
remote.py ADDRESS COMMAND [ARGUMENT]...: runs a command in the guest, with its output and status.

A connection carries the command, a line of JSON; then come frames {kind: 1 byte, number: 4 bytes},
of standard output (1) or error (2) with so many bytes behind them, or (0) the exit status.
"""
import json
import os
import socket
import struct
import sys


def main():
    address, *argv = sys.argv[1:]
    with socket.create_connection((address, 7), timeout=10) as connection:
        connection.settimeout(None)
        connection.sendall(json.dumps(argv).encode() + b"\n")
        stream = connection.makefile("rb")
        while len(frame := stream.read(5)) == 5:
            kind, number = struct.unpack(">BI", frame)
            if not kind:
                sys.exit(number)
            os.write(kind, stream.read(number))
    sys.exit("the guest hung up")


main()
