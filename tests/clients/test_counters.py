# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""What /sys counts of a port, while programs that know nothing of it move data."""
import pytest

from common import ENDING, expect_success, run_pair, wait_until
from middleware import OPENMPI, OPENMPI_ENV, OPENSHMEM, compiled, ucx

PORT = "/sys/class/infiniband/simhca0/ports/1"
MTU = 4096
ITERS = 100


def counters(device):
    """All of them, by name, as a program reads them."""
    result = expect_success(device.run("sh", "-c", f"cd {PORT} && head -qn1 counters/* && "
                                       "ls counters && cd hw_counters && head -qn1 * && ls"))
    words = result.stdout.split()
    values = {}
    while words:
        count = next(i for i, word in enumerate(words) if not word.isdigit())
        values |= zip(words[count:2 * count], map(int, words[:count]))
        words = words[2 * count:]
    return values


def counts(device, before, **expected):
    """Within their lifespan the counters differ from before by just so much."""
    def difference():
        now = counters(device)
        return {name: now[name] - before[name] for name in expected}
    wait_until(lambda: difference() == expected, ENDING,
               f"counted is {difference()}, expected {expected}")


def test_idle(device):
    """Nothing is counted when nothing moves."""
    before = counters(device)
    expect_success(device.run("ibv_devinfo", "-v"))
    assert counters(device) == before
    assert {"port_xmit_data", "symbol_error", "lifespan", "out_of_sequence"} <= set(before)


@pytest.mark.parametrize("size", [2, 65536])
def test_writes(device, size):
    """Data in units of four bytes with their headers, packets of the MTU, and requests."""
    before = counters(device)
    for result in run_pair(device, "ib_write_bw", "-F", "-n", ITERS, "-s", size):
        expect_success(result)
    packets = ITERS * max(1, size // MTU)
    words = ITERS * max(1, size // 4) + packets * 16 // 4 + ITERS * (16 + 20) // 4
    # The port is both ends': it sends requests and acknowledgements, and receives both.
    counts(device, before, port_xmit_data=words, port_rcv_data=words,
           port_xmit_packets=packets + ITERS, port_rcv_packets=packets + ITERS,
           unicast_xmit_packets=packets + ITERS, unicast_rcv_packets=packets + ITERS,
           multicast_xmit_packets=0, rx_write_requests=ITERS, rx_read_requests=0,
           local_ack_timeout_err=0, rnr_nak_retry_err=0, req_cqe_error=0)


# What each sends at the least, in bytes. MPI: five rounds of rings of its largest message, of two
# ranks. OpenSHMEM: what two PEs put and get.
MIDDLEWARE = {
    "mpich": (["mpiexec.mpich"], "mpicc.mpich", "mpi_messages.c", [1 << 18], 5 * 2 * (1 << 18)),
    "openmpi": (OPENMPI, "mpicc.openmpi", "mpi_messages.c", [1 << 18], 5 * 2 * (1 << 18)),
    "openshmem": (OPENSHMEM, "oshcc", "shmem.c", [], 2 * 2 * 10000 * 8),
}


@pytest.mark.parametrize("name", MIDDLEWARE)
def test_middleware(device, tmp_path, name):
    """Its messages do go through the port: as many bytes as the program sends, and some."""
    launcher, compiler, source, words, least = MIDDLEWARE[name]
    program = compiled(tmp_path, source, compiler=compiler)
    before = counters(device)
    expect_success(device.run(*launcher, "-n", 2, program, *words, **OPENMPI_ENV, **ucx("rc")))
    wait_until(lambda: counters(device)["port_xmit_data"] - before["port_xmit_data"] > least // 4,
               ENDING, "the messages are counted")
