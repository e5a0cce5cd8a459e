# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Ways in which perftest's programs use queue pairs: (program, flags, sizes)"""

QUIET = ["-F"]  # says nothing about the frequency of the CPU
SIZES = [2**i for i in range(1, 24)]
UD_SIZES = [2**i for i in range(1, 13)]
ITERS = 50
SMALL = [2]  # bytes, what the programs for latency measure by default
LARGE = [65536]  # and those for bandwidth
LARGEST = [8388608]
ATOMIC = [8]

BANDWIDTHS = {
    # events; ib_write_bw has no -e
    "send-e": ("ib_send_bw", ["-e"], LARGE),
    "send-e-uc": ("ib_send_bw", ["-e", "-c", "UC"], LARGE),
    "send-e-ud": ("ib_send_bw", ["-e", "-c", "UD"], [4096]),
    "read-e": ("ib_read_bw", ["-e"], LARGE),
    "atomic-e": ("ib_atomic_bw", ["-e"], ATOMIC),
    # several QPs
    "send-q": ("ib_send_bw", ["-q", 16], LARGE),
    "send-q-e": ("ib_send_bw", ["-q", 16, "-e"], LARGE),
    "send-q-ud": ("ib_send_bw", ["-q", 16, "-c", "UD"], [4096]),
    "write-q": ("ib_write_bw", ["-q", 16], LARGE),
    "write-q-uc": ("ib_write_bw", ["-q", 16, "-c", "UC"], LARGE),
    "read-q": ("ib_read_bw", ["-q", 16], LARGE),
    "atomic-q": ("ib_atomic_bw", ["-q", 16], ATOMIC),
    "write-q-mr": ("ib_write_bw", ["-q", 4, "--mr_per_qp"], LARGE),
    # a shared receive queue
    "send-srq": ("ib_send_bw", ["--use-srq"], LARGE),
    "send-srq-q": ("ib_send_bw", ["--use-srq", "-q", 16], LARGE),
    "send-srq-q-e": ("ib_send_bw", ["--use-srq", "-q", 16, "-e"], LARGE),
    # One QP: the queue has a receive for each message of one, and UD drops what finds none.
    "send-srq-ud": ("ib_send_bw", ["--use-srq", "-c", "UD"], [4096]),
    # XRC, whose receive queue is named by each message
    "send-xrc": ("ib_send_bw", ["-c", "XRC"], LARGE),
    "send-xrc-q-e": ("ib_send_bw", ["-c", "XRC", "-q", 4, "-e"], LARGE),
    "write-xrc": ("ib_write_bw", ["-c", "XRC"], LARGE),
    "read-xrc": ("ib_read_bw", ["-c", "XRC"], LARGE),
    "atomic-xrc": ("ib_atomic_bw", ["-c", "XRC"], ATOMIC),
    # inline data
    "send-I": ("ib_send_bw", ["-I", 64, "-s", 64], [64]),
    "send-I-ud": ("ib_send_bw", ["-I", 64, "-s", 64, "-c", "UD"], [64]),
    "write-I": ("ib_write_bw", ["-I", 64, "-s", 64], [64]),
    "write-I-uc": ("ib_write_bw", ["-I", 64, "-s", 64, "-c", "UC"], [64]),
    # lists of work requests, CQ moderation, short queues, path MTU
    "send-l": ("ib_send_bw", ["-l", 10], LARGE),
    "send-recv-l": ("ib_send_bw", ["--recv_post_list=10"], LARGE),
    "write-l": ("ib_write_bw", ["-l", 10], LARGE),
    "read-l": ("ib_read_bw", ["-l", 10], LARGE),
    "atomic-l": ("ib_atomic_bw", ["-l", 10], ATOMIC),
    "write-uc": ("ib_write_bw", ["-c", "UC"], LARGE),
    "send-uc-s": ("ib_send_bw", ["-c", "UC", "-s", *LARGEST], LARGEST),
    "write-uc-s": ("ib_write_bw", ["-c", "UC", "-s", *LARGEST], LARGEST),
    "send-ud-s": ("ib_send_bw", ["-s", 2048, "-c", "UD"], [2048]),
    "send-Q": ("ib_send_bw", ["-Q", 1], LARGE),
    "write-t": ("ib_write_bw", ["-t", 1], LARGE),
    "send-r": ("ib_send_bw", ["-r", 2, "-t", 1], LARGE),
    "read-o": ("ib_read_bw", ["-o", 1], LARGE),
    "atomic-o": ("ib_atomic_bw", ["-o", 1], ATOMIC),
    "send-m": ("ib_send_bw", ["-m", 256], LARGE),
    "write-m": ("ib_write_bw", ["-m", 1024], LARGE),
    # the GID by its index
    "send-x": ("ib_send_bw", ["-x", 0], LARGE),
    "write-x": ("ib_write_bw", ["-x", 0], LARGE),
    # atomics
    "atomic-add": ("ib_atomic_bw", ["-A", "FETCH_AND_ADD"], ATOMIC),
    "atomic-swap": ("ib_atomic_bw", ["-A", "CMP_AND_SWAP"], ATOMIC),
}

BOTH_WAYS = {
    "send": ("ib_send_bw", [], LARGE),
    "send-e": ("ib_send_bw", ["-e"], LARGE),
    "send-uc": ("ib_send_bw", ["-c", "UC"], LARGE),
    "send-ud": ("ib_send_bw", ["-c", "UD", "-s", 4096], [4096]),
    "send-srq": ("ib_send_bw", ["--use-srq", "-q", 4], LARGE),
    "send-xrc": ("ib_send_bw", ["-c", "XRC"], LARGE),
    "write-xrc": ("ib_write_bw", ["-c", "XRC"], LARGE),
    "send-q": ("ib_send_bw", ["-q", 16], LARGE),
    "write": ("ib_write_bw", [], LARGE),
    "write-uc": ("ib_write_bw", ["-c", "UC"], LARGE),
    "read": ("ib_read_bw", [], LARGE),
    "read-e": ("ib_read_bw", ["-e"], LARGE),
    "atomic": ("ib_atomic_bw", [], ATOMIC),
}

LATENCIES = {
    "send-e": ("ib_send_lat", ["-e"], SMALL),
    "send-e-uc": ("ib_send_lat", ["-e", "-c", "UC"], SMALL),
    "send-e-ud": ("ib_send_lat", ["-e", "-c", "UD"], SMALL),
    "send-s": ("ib_send_lat", ["-s", *LARGEST], LARGEST),
    "send-uc-s": ("ib_send_lat", ["-c", "UC", "-s", *LARGEST], LARGEST),
    "write-uc-s": ("ib_write_lat", ["-c", "UC", "-s", *LARGEST], LARGEST),
    "read-s": ("ib_read_lat", ["-s", *LARGEST], LARGEST),
    "send-srq": ("ib_send_lat", ["--use-srq"], SMALL),
    "send-srq-e": ("ib_send_lat", ["--use-srq", "-e"], SMALL),
    "send-xrc": ("ib_send_lat", ["-c", "XRC"], SMALL),
    "write-xrc": ("ib_write_lat", ["-c", "XRC"], SMALL),
    "send-I": ("ib_send_lat", ["-I", 64, "-s", 64], [64]),
    "send-I-ud": ("ib_send_lat", ["-I", 64, "-s", 64, "-c", "UD"], [64]),
    "write-I": ("ib_write_lat", ["-I", 64, "-s", 64], [64]),
    "write-I-uc": ("ib_write_lat", ["-I", 64, "-s", 64, "-c", "UC"], [64]),
    "read-e": ("ib_read_lat", ["-e"], SMALL),
    "atomic": ("ib_atomic_lat", [], ATOMIC),
    "atomic-e": ("ib_atomic_lat", ["-e"], ATOMIC),
    "atomic-swap": ("ib_atomic_lat", ["-A", "CMP_AND_SWAP"], ATOMIC),
}


def flags_of(flags, sizes):
    """Datagrams have no more than the MTU, which is not what the programs have by default."""
    return flags if flags[-2:] != ["-c", "UD"] or "-s" in flags else [*flags, "-s", sizes[0]]


def expected_iterations(flags, iters):
    """The table counts the messages of all QPs."""
    qps = flags[flags.index("-q") + 1] if "-q" in flags else 1
    return iters * qps
