# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""What the tests of UCX, MPI and their like share: transports, and programs of ours."""
import functools
import pathlib
import subprocess

HERE = pathlib.Path(__file__).resolve().parent

# Nothing but the device, and a process's messages to itself, which no device need carry: shared
# memory and TCP cannot stand in. rc_v is rc_verbs with ud_verbs to connect by.
TRANSPORTS = {"rc": "rc_v,self", "ud": "ud_verbs,self"}

# Open MPI and its OpenSHMEM; without more words, their own choice could be TCP or shared memory.
OPENMPI = ["mpirun.openmpi", "--oversubscribe", "--mca", "pml", "ucx", "--mca", "osc", "ucx"]
OPENSHMEM = ["oshrun", "--oversubscribe", "--mca", "pml", "ucx", "--mca", "spml", "ucx"]
OPENMPI_ENV = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               # of Open MPI's launcher: no other network, and no shell to a remote host
               "OMPI_MCA_plm_rsh_agent": "/bin/false", "OMPI_MCA_oob_tcp_if_include": "lo"}


def ucx(transport):
    """
    The environment that makes UCX use one transport of the device. UCX sends datagrams again
    after 10 ms, which is nothing where many processes share few CPUs; and what is late then
    confuses UCX 1.13, which connects by datagrams for RC, too. It may also change the request to
    connect while the device has yet to read it, which inline data cannot suffer from. The strong
    fence of UCX 1.18 asks rc_verbs for a flush that UCX has for mlx5 alone.
    """
    return {"UCX_TLS": TRANSPORTS[transport], "UCX_NET_DEVICES": "simhca0:1",
            "UCX_UD_TIMER_TICK": "1s", "UCX_UD_VERBS_TX_MIN_INLINE": "256",
            "UCX_FENCE_MODE": "weak", "UCX_WARN_UNUSED_ENV_VARS": "n"}


@functools.cache
def ucx_perftest():
    """Builds of it that know MPI take themselves for one of its ranks, unless told."""
    usage = subprocess.run(["ucx_perftest", "-h"], capture_output=True, text=True, check=False)
    return ["ucx_perftest", *(["-P", 0] if "MPI mode" in usage.stdout + usage.stderr else [])]


def compiled(directory, source, *flags, compiler="cc"):
    """A program of ours, compiled with a middleware's own compiler or libraries."""
    program = directory / f"{pathlib.Path(source).stem}.{compiler}"
    subprocess.run([compiler, "-Wall", "-Wextra", "-Werror", "-O1", HERE / source, "-o", program,
                    *flags], check=True)
    return program
