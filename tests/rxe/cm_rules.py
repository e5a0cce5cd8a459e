# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
Says what rdma_cm answers here, a line for each question, in the same words wherever it runs: an errno, an event with its
status, or what was asked for. Its arguments are this host's addresses, IPv4 and IPv6.
"""
import errno
import itertools
import socket
import struct
import sys

from rdma_cm import INIT_QP_ATTR, IPOIB, QPNS, TCP, UDP, Channel, Refused, address

EVENTS = {0: "ADDR_RESOLVED", 1: "ADDR_ERROR", 2: "ROUTE_RESOLVED", 4: "CONNECT_REQUEST", 5: "CONNECT_RESPONSE",
          7: "UNREACHABLE", 8: "REJECTED", 9: "ESTABLISHED", 10: "DISCONNECTED"}
REUSEADDR, AFONLY_OPTION = 1, 2
SECONDS = 5  # for an event that has to come
PORTS = itertools.count(7300)


def at(host, port=0, scope=0):
    """An address: "own4" and "own6" are this host's, "mapped" is the former in the form of the latter."""
    host = {"own4": sys.argv[1], "own6": sys.argv[2], "mapped": f"::ffff:{sys.argv[1]}"}.get(host, host)
    if ":" in host:
        return struct.pack("=H", socket.AF_INET6) + struct.pack("!HI", port, 0) + \
            socket.inet_pton(socket.AF_INET6, host) + struct.pack("=I", scope)
    return address(port, host)


def tried(function, *args, **more):
    """The name of an errno, or "ok"."""
    try:
        function(*args, **more)
    except Refused as error:
        return errno.errorcode[error.args[0]]
    return "ok"


def seen(channel, wait=SECONDS):
    """The next event and its id."""
    if not channel.readable(wait):
        return "nothing", None
    kind, number, status, _, _ = channel.event()
    return EVENTS.get(kind, str(kind)) + (f" {status}" if status else ""), number


def say(question, *answers):
    print(f"{question}: {', '.join(map(str, answers))}")


def local(channel, number):
    """The source and destination, without what is chosen by chance."""
    answer = channel.query(number, 0, 280)
    ends = []
    for at_byte in 16, 144:
        family = struct.unpack_from("=H", answer, at_byte)[0]
        size = {socket.AF_INET: (4, 4), socket.AF_INET6: (8, 16)}.get(family)
        host = size and socket.inet_ntop(family, answer[at_byte + size[0]:at_byte + sum(size)])
        ends.append("own" if host in sys.argv[1:] else host)
    return ends


# ------------------------------------------------------------------------------------ addresses


def binds(channel):
    hosts = ["0.0.0.0", "::", "127.0.0.1", "127.0.0.2", "::1", "own4", "own6"]
    for first, second in itertools.product(hosts, hosts):
        for shared, only in itertools.product(range(4), (None, 0, 1)):
            port, ids = next(PORTS), [channel.create(), channel.create()]
            for i, number in enumerate(ids):
                if shared >> i & 1:
                    channel.set_option(number, 0, REUSEADDR, struct.pack("=i", 1))
                if only is not None:
                    channel.set_option(number, 0, AFONLY_OPTION, struct.pack("=i", only))
            answers = [tried(channel.bind, number, at(host, port)) for number, host in zip(ids, (first, second))]
            answers += [tried(channel.listen, number) for number in ids]
            for number in ids:
                channel.destroy(number)
            say(f"{first} and {second} share a port, reuse {shared}, one family {only}", *answers)


def odd_addresses(channel):
    for ps in TCP, UDP, IPOIB:
        for host, scope in (("9.9.9.9", 0), ("0.0.0.5", 0), ("224.0.0.1", 0), ("255.255.255.255", 0), ("2001:db8::1", 0),
                            ("fe80::1234", 0), ("fe80::1234", 2), ("ff02::1", 0), ("ff0e::1", 0), ("mapped", 0),
                            ("0.0.0.0", 0), ("::", 0), ("127.0.0.1", 0), ("own4", 0), ("own6", 0)):
            if (ps, scope) == (IPOIB, 2):
                continue  # Linux finds that it is IPoIB's first
            number = channel.create(ps)
            answer = tried(channel.bind, number, at(host, 0, scope))
            say(f"bind to {host} scope {scope}, port space 0x{ps:x}", answer, *(local(channel, number) if answer == "ok" else []))


def resolutions(channel):
    for source, to in itertools.product((None, "0.0.0.0", "::", "own4", "own6", "9.9.9.9"),
                                        ("own4", "own6", "9.9.9.9", "2001:db8::1", "239.1.1.1", "ff0e::1",
                                         "mapped", "127.0.0.1", "127.0.0.2", "::1")):
        number = channel.create()
        answers = [tried(channel.bind, number, at(source))] if source else []
        answers.append(tried(channel.resolve_addr, number, at(to, 7301), 300))
        if answers[-1] == "ok":
            answers.append(seen(channel)[0])
        if answers[-1] == "ADDR_RESOLVED":
            answers += local(channel, number)
        say(f"resolve {to} from {source}", *answers)
        say("  and the own address then", tried(channel.resolve_addr, number, at("own4", 7301), 300), seen(channel, 0.3)[0])


# ----------------------------------------------------------------------------------- connections


def listens(channel, host, port, ps=TCP):
    number = channel.create(ps, uid=1)
    channel.bind(number, at(host, port))
    channel.listen(number)
    return number


def asks(channel, host, port, ps=TCP, **more):
    number = channel.create(ps, uid=2)
    channel.resolve(number, at(host, port))
    channel.connect(number, more.pop("qpn", None) or next(QPNS), **more)
    return number


def who_listens(server, client):
    for ps, host, to in itertools.product((TCP, UDP), ("own4", "own6", "0.0.0.0", "::", "127.0.0.1", None), ("own4", "own6")):
        port = next(PORTS)
        if host:
            listener_id = listens(server, host, port, ps)
        asks(client, to, port, ps)
        answer, number = seen(server, 0.5) if host else ("nobody", None)
        if number is not None:
            say(f"{host} listens, {to} is asked, port space 0x{ps:x}", answer, *local(server, number))
            server.destroy(number)
        say(f"{host} listens, {to} is asked, port space 0x{ps:x}: the client", seen(client)[0])
        if host:
            server.destroy(listener_id)


def masks(channel, number):
    """What INIT_QP_ATTR says for each state of a QP."""
    def mask(state):
        return hex(struct.unpack_from("=I", channel.command(INIT_QP_ATTR, struct.pack("=QII", 0, number, state), 144, 0))[0])

    answers = []
    for state in range(8):
        answer = tried(mask, state)
        answers.append(mask(state) if answer == "ok" else answer)
    return " ".join(answers)


def states(channel, number):
    """What the calls of a connection say to an id; they change nothing."""
    say("  attributes", masks(channel, number))
    say("  notify of a QP that failed", tried(channel.notify, number, 1))
    say("  bind, listen, resolve", tried(channel.bind, number, at("own4")), tried(channel.listen, number),
        tried(channel.resolve_addr, number, at("own4", 1)))
    for name, value in (REUSEADDR, 0), (REUSEADDR, 1), (AFONLY_OPTION, 1):
        say(f"  option {name} = {value}", tried(channel.set_option, number, 0, name, struct.pack("=i", value)))


def life(server, client):
    """A connection from one end to the other, and what is asked out of place."""
    port = next(PORTS)
    say("a listener", *local(server, number := listens(server, "own4", port)))
    states(server, number)
    say("  disconnect", tried(server.disconnect, number))
    qpn = next(QPNS)
    for _ in range(2):
        mine = asks(client, "own4", port, qpn=qpn)
        answer, theirs = seen(server)
        say("asks", answer)
        states(client, mine)
        states(server, theirs)
        say("  too much", tried(server.reject, theirs, bytes(149)))
        server.reject(theirs)
        say("rejected", seen(client)[0], tried(server.reject, theirs), tried(server.accept, theirs, 3, next(QPNS)))
        say("  establish, connect", tried(client.establish, mine), tried(client.connect, mine, qpn))
        states(client, mine)
        for end, number in (server, theirs), (client, mine):
            end.destroy(number)
        mine = asks(client, "own4", port)
        _, theirs = seen(server)
        server.accept(theirs, 3, next(QPNS))
        say("accepted", seen(client)[0])
        server.notify(theirs, 4)
        say("established by a message", seen(server)[0], tried(server.notify, theirs, 4))
        client.establish(mine)
        for end, number in (client, mine), (server, theirs):
            states(end, number)
        say("  reject, accept", tried(server.reject, theirs), tried(client.reject, mine))
        client.disconnect(mine)
        say("disconnected", seen(server)[0], seen(client, 0.3)[0])
        server.disconnect(theirs)
        say("both", seen(client)[0])
        for end, number in (client, mine), (server, theirs):
            say("  attributes", masks(end, number))
            say("  disconnect", tried(end.disconnect, number))
            end.destroy(number)


def stale(server, client):
    port, qpn = next(PORTS), next(QPNS)
    listens(server, "own4", port)
    first = asks(client, "own4", port, qpn=qpn)
    _, theirs = seen(server)
    server.accept(theirs, 3, next(QPNS))
    seen(client)
    client.establish(first)
    say("a QP that is connected", seen(server)[0])
    second = asks(client, "own4", port, qpn=qpn)
    say("  is connected once more", seen(client)[0], seen(client)[0], tried(client.connect, second, qpn))
    client.disconnect(first)


def private_data(server, client):
    for ps, sizes in ((TCP, (0, 56, 57)), (UDP, (0, 180, 181))):
        port = next(PORTS)
        number = listens(server, "own4", port, ps)
        for size in sizes:
            mine = client.create(ps, uid=2)
            client.resolve(mine, at("own4", port))
            say(f"{size} bytes, port space 0x{ps:x}", answer := tried(client.connect, mine, next(QPNS), bytes(size)),
                "-" if answer != "ok" else seen(server)[0])
        server.destroy(number)


def main():
    server, client = Channel(), Channel()
    binds(server)
    odd_addresses(server)
    resolutions(client)
    server.close()
    client.close()
    for questions in who_listens, life, stale, private_data:
        server, client = Channel(), Channel()
        questions(server, client)
        server.close()
        client.close()


main()
