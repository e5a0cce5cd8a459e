# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
A program that has an EFA device open and idle forks: the child opens the device for itself, both exchange
messages, each with itself, at the same time, and the parent does once more when the child has ended. Prints a
line for each.
"""
import os
import sys
import time

from efa_messages import End, exchange

MESSAGES = 20


def pair():
    here, there = End("simhca0"), End("simhca0")
    return here, there, here.address(there.gid())


def messages(here, there, ah):
    for number in range(MESSAGES):
        if not exchange(here, there, ah, 100 + number):
            return False
        if number % 5 == 4:
            time.sleep(0.02)  # until the device is asleep, and its doorbells are watched
    return True


def main():
    mine = pair()
    if not messages(*mine):
        sys.exit("before")
    time.sleep(0.05)
    child = os.fork()
    if not child:
        os._exit(0 if messages(*pair()) else 1)
    print("parent", "ok" if messages(*mine) else "WRONG", flush=True)
    print("child", "ok" if os.waitpid(child, 0)[1] == 0 else "WRONG", flush=True)
    print("later", "ok" if messages(*mine) else "WRONG", flush=True)


main()
