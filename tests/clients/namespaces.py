# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Network namespaces, which stand for hosts. No privilege is needed but a user namespace."""
import contextlib
import shutil
import subprocess

IPV4 = ["10.99.0.1", "10.99.0.2"]
IPV6 = ["fd99::1", "fd99::2"]
LINK_LOCAL_GID, IPV4_GID, IPV6_GID = 0, 1, 2  # of an interface that has both


def namespaces_can_be_had():
    return shutil.which("unshare") and shutil.which("ip") and not subprocess.run(
        ["unshare", "-Urn", "ip", "link", "add", "veth0", "type", "veth", "peer", "veth1"],
        check=False, capture_output=True).returncode


@contextlib.contextmanager
def holder(*argv):
    """A process that keeps the namespaces which it was started in."""
    process = subprocess.Popen([*argv, "sh", "-c", "echo; exec sleep infinity"],
                               stdout=subprocess.PIPE)
    try:
        process.stdout.readline()
        yield process.pid
    finally:
        process.kill()
        process.wait()


def new_host():
    """A namespace of its own, in a user namespace of its own."""
    return holder("unshare", "-Urn")


def another_host(pid):
    """A further one, in the user namespace of a holder."""
    return holder("nsenter", "-t", str(pid), "-U", "--preserve-credentials", "unshare", "-n")


def inside(pid):
    """The prefix of commands in a holder's namespaces."""
    return ["nsenter", "-t", str(pid), "-U", "-n", "--preserve-credentials"]


def listens(host, port):
    """Whether somebody there listens on a TCP port."""
    tables = host.run("cat", "/proc/net/tcp", "/proc/net/tcp6").stdout.splitlines()
    return any(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A"
               for line in tables)
