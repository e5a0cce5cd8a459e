# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""What the tests of UCX, MPI and their like share: transports, and programs of ours."""
import functools
import math
import pathlib
import re
import signal
import subprocess

from common import TIME_LIMIT, expect_success, wait_until

HERE = pathlib.Path(__file__).resolve().parent

# Nothing but the device, and a process's messages to itself, which no device need carry: shared
# memory and TCP cannot stand in. rc_v is rc_verbs with ud_verbs to connect by.
TRANSPORTS = {"rc": "rc_v,self", "ud": "ud_verbs,self"}

# Open MPI and its OpenSHMEM; without more words, their own choice could be TCP or shared memory.
OPENMPI = ["mpirun.openmpi", "--oversubscribe", "--mca", "pml", "ucx", "--mca", "osc", "ucx"]
OPENSHMEM = ["oshrun", "--oversubscribe", "--mca", "pml", "ucx", "--mca", "spml", "ucx"]


def openmpi_env(shell="/bin/false", interface="lo"):
    """
    For Open MPI's launchers: the shell that reaches other hosts, none by default, and the interface that they talk by.
    From 5.0 on they are PRRTE's, and find the interface by themselves.
    """
    return {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_plm_rsh_agent": str(shell), "PRTE_MCA_plm_ssh_agent": str(shell),
            "OMPI_MCA_oob_tcp_if_include": interface}


OPENMPI_ENV = openmpi_env()

# libfabric's efa carries messages within one host by shared memory otherwise, past the device.
NO_SHM = {"FI_EFA_ENABLE_SHM_TRANSFER": "0"}

# Of ucx_perftest.
UCP = {
    "tag-lat": ["-t", "tag_lat", "-s", 64],
    "tag-sync": ["-t", "tag_sync_lat", "-s", 64],
    "tag-bw": ["-t", "tag_bw", "-s", 65536],
    "tag-iov": ["-t", "tag_bw", "-s", "16,48,8192", "-D", "iov"],
    "tag-unexpected": ["-t", "tag_lat", "-s", 3000, "-U"],
    "am-lat": ["-t", "ucp_am_lat", "-s", 64],
    "am-bw": ["-t", "ucp_am_bw", "-s", 65536],
    "put-lat": ["-t", "ucp_put_lat", "-s", 64],
    "put-bw": ["-t", "ucp_put_bw", "-s", 65536],
    "get": ["-t", "ucp_get", "-s", 65536],
    "add": ["-t", "ucp_add", "-s", 8],
    "fadd": ["-t", "ucp_fadd", "-s", 8],
    "swap": ["-t", "ucp_swap", "-s", 8],
    "cswap": ["-t", "ucp_cswap", "-s", 8],
    "stream": ["-t", "stream_bw", "-s", 4096],
    "error-handling": ["-t", "tag_lat", "-s", 64, "-e"],
}

# What programs of ours print, a line for each part.
MPI_PARTS = {"messages": ["ring", "all to all", "both ways", "reduction"],
             "one_sided": ["put", "get", "accumulate", "fetch and op", "compare and swap"]}
UCP_PARTS = ["tag, sync, am, stream", "put, get", "atomics", "both sides are done"]
SHMEM_PARTS = ["put", "get", "atomics", "ring", "reduction"]


def ucx(transport, gid="auto"):
    """
    The environment that makes UCX use one transport of the device, and, of its GIDs, IPv4's unless
    told. UCX sends datagrams again
    after 10 ms, which is nothing where many processes share few CPUs; and what is late then
    confuses UCX 1.13, which connects by datagrams for RC, too. It may also change the request to
    connect while the device has yet to read it, which inline data cannot suffer from. The strong
    fence of UCX 1.18 asks rc_verbs for a flush that UCX has for mlx5 alone.
    """
    return {"UCX_TLS": TRANSPORTS[transport], "UCX_NET_DEVICES": "simhca0:1",
            "UCX_IB_GID_INDEX": str(gid),
            "UCX_UD_TIMER_TICK": "1s", "UCX_UD_VERBS_TX_MIN_INLINE": "256",
            "UCX_FENCE_MODE": "weak", "UCX_WARN_UNUSED_ENV_VARS": "n"}


@functools.cache
def ucx_perftest():
    """Builds of it that know MPI take themselves for one of its ranks, unless told."""
    usage = subprocess.run(["ucx_perftest", "-h"], capture_output=True, text=True, check=False)
    return ["ucx_perftest", *(["-P", 0] if "MPI mode" in usage.stdout + usage.stderr else [])]


def numbers_of(client):
    """The last line of numbers that ucx_perftest has printed."""
    lines = [line.split() for line in client.stdout.splitlines() if line.strip()]
    found = [[float(word) for word in line if re.fullmatch(r"[\d.]+|-?nan", word)] for line in lines]
    found = [numbers for numbers in found if len(numbers) == 8]
    assert found, client
    return found[-1]


def expect_numbers(client, iters):
    """
    They make sense. Those of the last moment are none if all was done, and printed, before: then it has
    divided 0 by 0.
    """
    done, _, moment, latency, _, _, rate_then, rate = numbers_of(client)
    assert done == iters and latency > 0 and rate > 0, client
    assert math.isnan(moment) and math.isnan(rate_then) or moment > 0 and rate_then > 0, client


def compiled(directory, source, *flags, compiler="cc"):
    """A program of ours, compiled with a middleware's own compiler or libraries."""
    stem = pathlib.Path(source).stem
    program = directory / (stem if compiler == "cc" else f"{stem}.{compiler}")
    subprocess.run([compiler, "-Wall", "-Wextra", "-Werror", "-O1", HERE / source, "-o", program,
                    *flags], check=True)
    return program


def compiled_mpi(directory):
    """By MPI and name."""
    return {(mpi, name): compiled(directory, f"mpi_{name}.c", compiler=f"mpicc.{mpi}")
            for mpi in ("openmpi", "mpich") for name in MPI_PARTS}


def run_efa_rdm(server_at, client_at, directory):
    """A program of ours over libfabric's efa, whose ends may be on two hosts."""
    program = compiled(directory, "efa_rdm.c", "-lfabric")
    server = server_at.start(program, **NO_SHM)
    wait_until(lambda: "\n" in server.stdout or not server.running, TIME_LIMIT, "it tells its address")
    client = expect_success(client_at.run(program, server.stdout.split()[0], **NO_SHM))
    assert client.stdout.split() == ["1", "3000", "8000", "40000", "200000", "done"]
    server.send(signal.SIGUSR1)
    assert expect_success(server.finish()).stdout.split()[1:] == client.stdout.split()


def expect_ranks(result, program, ranks):
    expect_success(result)
    lines = [line for line in result.stdout.splitlines() if not line.startswith("[")]
    assert lines == [*MPI_PARTS[program], f"{ranks} ranks"], result


def expect_pes(result, pes):
    expect_success(result)
    assert result.stdout.splitlines() == [*SHMEM_PARTS, f"{pes} PEs"], result
