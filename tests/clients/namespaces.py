# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Network namespaces, which stand for hosts. No privilege is needed but a user namespace."""
import contextlib
import json
import os
import shutil
import subprocess

from common import TIME_LIMIT, SIMHCA, Device, Launcher, expect_success, wait_until
from listening import is_listened_on, netlink_in

IPV4 = ["10.99.0.1", "10.99.0.2"]
IPV6 = ["fd99::1", "fd99::2"]
LINK_LOCAL_GID, IPV4_GID, IPV6_GID = 0, 1, 2  # of an interface that has both


def namespaces_can_be_had():
    return shutil.which("unshare") and shutil.which("ip") and not subprocess.run(
        ["unshare", "-Urn", "ip", "link", "add", "veth0", "type", "veth", "peer", "veth1"],
        check=False, capture_output=True).returncode


# The first process of a host: its name is not that of another one, and where that may be said its
# interfaces have their link-local addresses at once, as nobody else can have them.
FIRST = """
echo "host-$$" >/proc/sys/kernel/hostname
for which in all default; do echo 0 >"/proc/sys/net/ipv6/conf/$which/accept_dad"; done
echo
exec sleep infinity
"""


_netlinks = {}  # {a holder's PID: what asks for listeners there}


@contextlib.contextmanager
def holder(*argv):
    """A process that keeps the namespaces which it was started in."""
    process = subprocess.Popen([*argv, "sh", "-c", FIRST], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL)
    try:
        process.stdout.readline()
        yield process.pid
    finally:
        if process.pid in _netlinks:  # it would keep the namespace
            _netlinks.pop(process.pid).close()
        process.kill()
        process.wait()


def by_itself(*argv):
    """
    That command in a network namespace of its own, which has 127.0.0.1: what listens on a port of the documentation meets
    nobody's who is tested at the same time. Root needs no user namespace, of which the kernel makes none in a chroot.
    """
    return ["unshare", "-n" if os.geteuid() == 0 else "-Urn", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", *argv]


def new_host():
    """A namespace of its own, in a user namespace of its own."""
    return holder("unshare", "-Urnu")


def another_host(pid):
    """A further one, in the user namespace of a holder."""
    return holder("nsenter", "-t", str(pid), "-U", "--preserve-credentials", "unshare", "-nu")


def inside(pid):
    """The prefix of commands in a holder's namespaces."""
    return ["nsenter", "-t", str(pid), "-U", "-n", "-u", "--preserve-credentials"]


def listens(host, port):
    """Whether somebody there listens on a TCP port."""
    holder = int(host.prefix[host.prefix.index("-t") + 1])  # as inside() has it
    if holder not in _netlinks:
        _netlinks[holder] = netlink_in(inside(holder))
    return is_listened_on(port, _netlinks[holder])


def sent_datagrams(host):
    """How many of UDP have left there, {4: by IPv4, 6: by IPv6}; those of one run are one."""
    snmp, snmp6 = (host.run("cat", f"/proc/net/{table}").stdout for table in ("snmp", "snmp6"))
    names, values = (line.split() for line in snmp.splitlines() if line.startswith("Udp: "))
    of_ipv6 = dict(line.split() for line in snmp6.splitlines())
    return {4: int(values[names.index("OutDatagrams")]), 6: int(of_ipv6["Udp6OutDatagrams"])}


@contextlib.contextmanager
def sends_by(host, family):
    """What it sends meanwhile goes by IPv4, or by IPv6."""
    before = sent_datagrams(host)
    yield
    sent = {each: count - before[each] for each, count in sent_datagrams(host).items()}
    assert sent[family] > 10 * sent[10 - family], sent


def wire(host):
    """What `simhca wire` says there."""
    return json.loads(expect_success(host.tool.run(SIMHCA, "wire", "--json")).stdout)


def join(first, second, name, mtu, addresses, its_name=None):
    """A pair of interfaces between two namespaces, and the addresses at its ends."""
    expect_success(Launcher(inside(first)).run(
        "ip", "link", "add", name, "mtu", mtu, "type", "veth",
        "peer", "name", its_name or name, "mtu", mtu, "netns", second))
    bring_up(first, second, name, mtu, addresses, its_name)


def bring_up(first, second, name, mtu, addresses, its_name=None):
    names = name, its_name or name
    for pid, name, here in zip((first, second), names, addresses):
        launcher = Launcher(inside(pid))
        for address in here:
            nodad = ["nodad"] if ":" in address else []
            expect_success(launcher.run("ip", "addr", "add", address, "dev", name, *nodad))
        expect_success(launcher.run("ip", "link", "set", name, "mtu", mtu, "up"))
        expect_success(launcher.run("ip", "link", "set", "lo", "up"))
    for pid, name in zip((first, second), names):
        launcher = Launcher(inside(pid))

        def can_be_used():
            shown = launcher.run("ip", "-6", "addr", "show", "dev", name).stdout
            return "scope link" in shown and "tentative" not in shown

        wait_until(can_be_used, TIME_LIMIT, "the link-local address can be used")


@contextlib.contextmanager
def three_hosts(mtu):
    """Each with a device on a link to each other one; also [host][other]: device and address."""
    with contextlib.ExitStack() as stack:
        pids = [stack.enter_context(new_host())]
        pids += [stack.enter_context(another_host(pids[0])) for _ in range(2)]
        ways = [{}, {}, {}]
        for number, (one, other) in enumerate([(0, 1), (0, 2), (1, 2)]):
            addresses = [f"10.99.{number}.{host}" for host in (1, 2)]
            join(pids[one], pids[other], f"to{other}", mtu,
                 [[f"{address}/24"] for address in addresses], f"to{one}")
            for here, there, address in zip((one, other), (other, one), addresses):
                ways[here][there] = f"simhca{len(ways[here])}", address
        hosts = []
        for pid, way in zip(pids, ways):
            devices = [f"--daemon-option=device={device},netdev=to{other}"
                       for other, (device, _) in way.items()]
            hosts.append(stack.enter_context(
                Device("ethernet", *devices, "--wire=roce", prefix=inside(pid))))
        yield hosts, ways


@contextlib.contextmanager
def two_hosts(mtu, *options, join=join, env=None):
    """Two devices, each in its namespace, with IPv4, IPv6 and link-local addresses; env: for their daemons as well."""
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(new_host())
        second = stack.enter_context(another_host(first))
        join(first, second, "eth0", mtu,
             [[f"{ipv4}/24", f"{ipv6}/64"] for ipv4, ipv6 in zip(IPV4, IPV6)])
        hosts = []
        for pid in first, second:
            hosts.append(stack.enter_context(wire_device(pid, *options, env=env)))
        yield hosts


@contextlib.contextmanager
def one_network(count, mtu=1500, families=(4, 6)):
    """
    As many hosts, each by its interface eth0 on one switch, with addresses of these families: lists
    of the processes that hold them, and of each one's addresses {family: address}.
    """
    with contextlib.ExitStack() as stack:
        switch = stack.enter_context(new_host())
        commands = Launcher(inside(switch))
        expect_success(commands.run("ip", "link", "add", "br0", "mtu", mtu, "type", "bridge"))
        expect_success(commands.run("ip", "link", "set", "br0", "up"))
        hosts, addresses = [], []
        for number in range(1, count + 1):
            host = stack.enter_context(another_host(switch))
            own = {4: f"10.98.{number >> 8}.{number & 255}", 6: f"fd98::{number:x}"}
            join(switch, host, f"to{number}", mtu,
                 [[], [f"{own[family]}/{16 if family == 4 else 64}" for family in families]], "eth0")
            expect_success(commands.run("ip", "link", "set", f"to{number}", "master", "br0"))
            hosts.append(host)
            addresses.append({family: own[family] for family in families})
        yield hosts, addresses


def wire_device(host, *options, env=None):
    """Its device, to be entered: of eth0, with a wire."""
    device = Device("ethernet", "--netdev=eth0", "--wire=roce", *options, prefix=inside(host))
    device.tool.env |= env or {}
    device.namespace = host
    return device


def remote_shell(directory, devices, addresses):
    """
    A program that launchers of MPI call in ssh's stead, on the first device's host, with an address and a
    command: it runs the command on that host, with the environment of the host's device.
    """
    path = directory / "remote_shell"
    lines = ["#!/bin/sh", "host=$1", "shift", "case $host in"]
    for device, address in zip(devices, addresses):
        variables = " ".join(f"'{name}={value}'" for name, value in device.env.items()
                             if devices[0].env.get(name) != value)
        lines.append(f"{address}) exec nsenter -t {device.namespace} -n -u env {variables} "
                     'sh -c "$*" ;;')
    path.write_text("\n".join([*lines, "esac", "exit 1", ""]))
    path.chmod(0o755)
    return path
