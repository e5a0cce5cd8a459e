# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
What both ends of a connection are told, and when: who is asked, what they agree on, how it is
refused, and how it ends. By the layouts of rdma/rdma_user_cm.h.
"""
import errno
import socket
import struct
import threading

import pytest

from rdma_cm import (
    ADDR_ERROR, ADDR_RESOLVED, CONNECT_REQUEST, CONNECT_RESPONSE, DISCONNECTED, ESTABLISHED, IB, INIT_QP_ATTR, INTERNAL, IPOIB,
    JOIN_MCAST, MULTICAST_JOIN, QPNS, REJECTED, RESOLVE_IB_SERVICE, TCP, TIMEWAIT_EXIT, UDP,
    UNREACHABLE, USER, WRITE_CM_EVENT, address, failures, is_ethernet, listener, refused)

pytestmark = pytest.mark.addresses

RESET, INIT, RTR, RTS, ERR = 0, 1, 2, 3, 6
AFONLY = 0, 2  # RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY
COMM_EST, QP_FATAL = 4, 1  # ibv_event_type
UC, XRC_SEND = 3, 9
RETRIES = slice(265, 271)  # of the connection's parameters: SRQ to rnr_retry_count


def unconnected(channel):
    """Everything is ready but nobody was asked."""
    number = channel.create(uid=2)
    channel.resolve(number, 5000)
    return number


def address6(port=0, host="::", scope=0):
    return struct.pack("<H", socket.AF_INET6) + struct.pack("!HI", port, 0) + \
        socket.inet_pton(socket.AF_INET6, host) + struct.pack("<I", scope)


def ask(channel, port, ps=TCP, **more):
    """An id whose request is on its way."""
    client = channel.create(ps, uid=2)
    channel.resolve(client, port)
    channel.connect(client, next(QPNS), **more)
    return client


def connected(channel, other):
    """Ids of both ends: of the one that listened, and of the other."""
    _, port = listener(channel)
    client = ask(other, port)
    kind, server, *_ = channel.event()
    assert kind == CONNECT_REQUEST
    channel.accept(server, 3, next(QPNS))
    assert other.event()[:2] == (CONNECT_RESPONSE, client)
    other.establish(client)
    assert channel.event()[:2] == (ESTABLISHED, server)
    return server, client


def test_end(channel, other):
    """
    Who ends it hears of it when the other end has answered; both hear when their QPs' numbers are
    free again.
    """
    server, client = connected(channel, other)
    other.disconnect(client)
    assert channel.event()[:4] == (DISCONNECTED, server, 0, 3)
    assert not other.readable(0.1)
    channel.disconnect(server)
    assert other.event()[:4] == (DISCONNECTED, client, 0, 2)
    assert not channel.readable() and not other.readable()
    assert channel.event()[:4] == (TIMEWAIT_EXIT, server, 0, 3)
    assert other.event()[:4] == (TIMEWAIT_EXIT, client, 0, 2)
    refused(errno.EINVAL, other.disconnect, unconnected(other))


def test_both_end(channel, other):
    """Each hears once, whoever was first."""
    server, client = connected(channel, other)
    other.disconnect(client)
    channel.disconnect(server)
    other.disconnect(client)
    channel.disconnect(server)
    for end in channel, other:
        assert [end.event()[0], end.event()[0]] == [DISCONNECTED, TIMEWAIT_EXIT]
        assert not end.readable()


@pytest.mark.parametrize("reason", [0, 28, 35])
def test_rejected(channel, other, reason):
    """A user says no, with a reason and 148 bytes."""
    _, port = listener(channel)
    client = ask(other, port)
    kind, request, *_ = channel.event()
    assert kind == CONNECT_REQUEST
    refused(errno.EINVAL, channel.reject, request, b"", 8)
    refused(errno.EINVAL, channel.reject, request, bytes(149), reason)
    channel.reject(request, b"busy", reason)
    kind, number, status, uid, parameters = other.event()
    assert (kind, number, status, uid) == (REJECTED, client, reason or 28, 2)
    assert parameters[8:12] == b"busy" and not any(parameters[12:264]) and parameters[264] == 148
    refused(errno.EINVAL, channel.accept, request, 3, next(QPNS))
    refused(errno.EINVAL, channel.reject, unconnected(channel))


def test_rejected_datagrams(channel, other):
    """Of UD it is UNREACHABLE, status 2, with 136 bytes; and 1 where nobody listens."""
    number, port = listener(channel, ps=UDP)
    client = ask(other, port, UDP)
    request = channel.event()[1]
    refused(errno.EINVAL, channel.reject, request, bytes(137))
    channel.reject(request, b"busy")
    kind, of, status, _, parameters = other.event()
    assert (kind, of, status) == (UNREACHABLE, client, 2)
    assert parameters[40:44] == b"busy" and parameters[296] == 136
    channel.destroy(number)
    client = ask(other, port, UDP)
    assert other.event()[:3] == (UNREACHABLE, client, 1)


def test_another_type(channel, other):
    """A listener of UC is not asked by RC."""
    number = channel.create(IB, uid=1, qp_type=UC)
    channel.bind(number, address())
    channel.listen(number)
    port, = struct.unpack_from("!H", channel.query(number, 0, 280), 18)
    for qp_type in 2, UC:
        client = other.create(IB, uid=2, qp_type=qp_type)
        other.resolve(client, port)
        other.connect(client, next(QPNS))
        if qp_type != UC:
            assert other.event()[:3] == (REJECTED, client, 28)
    assert channel.event()[0] == CONNECT_REQUEST
    assert not channel.readable() and not other.readable()


def test_xrc_listeners(channel, other):
    """Who sends by XRC is heard by who receives by it, and by nobody who sends as well."""
    number = channel.create(IB, uid=1, qp_type=XRC_SEND)
    channel.bind(number, address())
    channel.listen(number)
    client = other.create(IB, uid=2, qp_type=XRC_SEND)
    other.resolve(client, struct.unpack_from("!H", channel.query(number, 0, 280), 18)[0])
    other.connect(client, next(QPNS))
    assert other.event()[:3] == (REJECTED, client, 28)
    assert not channel.readable()


def test_last_packets_of_no_connection(channel, other):
    """Who is rejected as its QP has a connection (reason 10) had none itself, and hears nothing of its end."""
    _, port = listener(channel)
    qpn = next(QPNS)
    for _ in range(2):
        client = other.create(uid=2)
        other.resolve(client, port)
        other.connect(client, qpn)
    assert other.event()[:3] == (REJECTED, client, 10)
    refused(errno.EINVAL, other.connect, client, qpn)
    assert failures()[-1]["text"].startswith("the id was refused"), failures()[-1]
    assert not other.readable(3)


def attributes(channel, number, state):
    return channel.command(INIT_QP_ATTR, struct.pack("<QII", 0, number, state), 144, 0)


def test_numbers(channel, other):
    """What one end can take is what the other may begin; there are 7 retries at most."""
    _, port = listener(channel)
    client = ask(other, port, numbers=(3, 5, 1, 9, 8))
    _, server, _, _, parameters = channel.event()
    assert tuple(parameters[RETRIES]) == (0, 5, 3, 1, 7, 7)
    channel.accept(server, 3, next(QPNS), numbers=(4, 2, 0, 1, 6))
    _, _, _, _, parameters = other.event()
    assert tuple(parameters[RETRIES]) == (0, 2, 4, 0, 0, 6)
    for end, number, takes, begins, rnr in (channel, server, 4, 2, 7), (other, client, 2, 4, 6):
        assert attributes(end, number, RTR)[131] == takes
        rts = attributes(end, number, RTS)
        assert (rts[130], rts[135], rts[136]) == (begins, 7, rnr)


MASK_OF_INIT = {TCP: 0x39, UDP: 0x71}  # IBV_QP_STATE, PKEY_INDEX and PORT, with ACCESS_FLAGS or QKEY


@pytest.mark.parametrize("ps", [TCP, UDP])
def test_attributes_of_what_is_not_connected(channel, ps):
    """They are those of INIT for whatever state, but of a listener for connections, which has none."""
    def masks(number):
        return {struct.unpack_from("<I", attributes(channel, number, state))[0] for state in range(RESET, ERR + 1)}

    number = channel.create(ps)
    channel.resolve(number, 5000)
    assert masks(number) == {MASK_OF_INIT[ps]}
    refused(errno.EINVAL, attributes, channel, number, ERR + 1)
    # 127.0.0.1 is an address of the device's interface, so the listener has a device.
    channel.bind(listens := channel.create(ps), address())
    channel.listen(listens)
    if ps == UDP:
        assert masks(listens) == {MASK_OF_INIT[ps]}
    else:
        refused(errno.EINVAL, attributes, channel, listens, INIT)
    channel.disconnect(listens)  # which ends nothing


def test_attributes_of_a_connection_that_is_over(channel, other):
    server, client = connected(channel, other)
    for state in INIT, RTR, RTS:
        assert attributes(channel, server, state)
    other.disconnect(client)
    assert channel.event()[0] == DISCONNECTED
    for end in (channel, server), (other, client):
        for state in INIT, RTR, RTS:
            refused(errno.EINVAL, attributes, *end, state)


def test_a_qp_that_connects_again(channel, other):
    """When its last connection has ended at both ends, with the next id."""
    _, port = listener(channel)
    qpn = next(QPNS)
    for _ in range(2):
        client = other.create(uid=2)
        other.resolve(client, port)
        other.connect(client, qpn)
        kind, server, *_ = channel.event()
        assert kind == CONNECT_REQUEST
        channel.accept(server, 3, next(QPNS))
        assert other.event()[:2] == (CONNECT_RESPONSE, client)
        other.establish(client)
        assert channel.event()[0] == ESTABLISHED
        other.disconnect(client)
        assert channel.event()[0] == DISCONNECTED
        channel.disconnect(server)
        assert other.event()[0] == DISCONNECTED
        for end, number in (channel, server), (other, client):
            end.destroy(number)


def test_sequence_numbers(channel, other):
    """Each end expects what the other begins with."""
    server, client = connected(channel, other)
    ends = [(attributes(*end, RTR), attributes(*end, RTS)) for end in ((channel, server),
                                                                     (other, client))]
    expected = [struct.unpack_from("<I", rtr, 24)[0] for rtr, _ in ends]
    begun = [struct.unpack_from("<I", rts, 28)[0] for _, rts in ends]
    assert expected == begun[::-1] and expected[0] != expected[1]


def test_gone_before_it_was_accepted(channel, other):
    """What happens before a request is accepted is no event: accepting it fails, and why is told."""
    _, port = listener(channel)
    client = ask(other, port)
    request = channel.event()[1]
    other.destroy(client)
    assert not channel.readable(0.1)
    refused(errno.EINVAL, channel.accept, request, 3, next(QPNS))
    told = [failure for failure in failures() if failure["kind"] == "connection"]
    assert (told[-1]["how"], told[-1]["status"]) == ("too_late", 4)
    assert channel.destroy(request) == 0


def test_data_before_the_last_message(channel, other):
    """The QP has seen a message of the connection, which the library tells by NOTIFY."""
    _, port = listener(channel)
    client = ask(other, port)
    server = channel.event()[1]
    refused(errno.EINVAL, channel.notify, unconnected(channel), COMM_EST)
    channel.accept(server, 3, next(QPNS))
    refused(errno.EINVAL, channel.notify, server, QP_FATAL)
    channel.notify(server, COMM_EST)
    assert channel.event()[:2] == (ESTABLISHED, server)
    assert other.event()[0] == CONNECT_RESPONSE
    other.establish(client)
    refused(errno.EISCONN, channel.notify, server, COMM_EST)
    assert not channel.readable(0.1)


@pytest.mark.parametrize("only", [False, True])
@pytest.mark.parametrize("ps", [TCP, UDP])
def test_any_address_of_ipv6(channel, other, ps, only):
    """It is asked by IPv4, too, unless it has refused."""
    number = channel.create(ps, uid=1)
    channel.set_option(number, *AFONLY, struct.pack("<i", only))
    channel.bind(number, address6())
    channel.listen(number)
    port = struct.unpack_from("!H", channel.query(number, 0, 280), 18)[0]
    client = ask(other, port, ps)
    if only:
        # As one that its program does not want: somebody listens on the port.
        assert other.event()[:3] == ((REJECTED, client, 28) if ps == TCP else (UNREACHABLE, client, 2))
        told = [failure for failure in failures() if failure["kind"] == "connection"][-1]
        assert told["how"] == "nobody_listens" and f"listeners are: [::]:{port}" in told["text"], told
    else:
        _, request, *_ = channel.event()
        assert struct.unpack_from("<H", channel.query(request, 0, 280), 16)[0] == socket.AF_INET
    ask(other, address6(port, "::1"), ps)
    assert channel.event()[0] == CONNECT_REQUEST


def test_addresses(channel):
    """What is bound to, and what is resolved."""
    for host in "0.0.0.0", "127.0.0.1", "127.9.9.9":
        number = channel.create()
        channel.bind(number, address(0, host))
        # The destination is of that family from now on.
        assert struct.unpack_from("<2H", channel.query(number, 0, 280), 12) == (16, 16)
    for host in "::", "::1":
        channel.bind(channel.create(), address6(0, host))
    refused(errno.EADDRNOTAVAIL, channel.bind, channel.create(), address(0, "0.1.2.3"))
    refused(errno.EADDRNOTAVAIL, channel.bind, channel.create(), address6(0, "::ffff:127.0.0.1"))
    for host in "fe80::1", "ff02::1":
        refused(errno.EINVAL, channel.bind, channel.create(), address6(0, host))
        refused(errno.ENODEV, channel.bind, channel.create(), address6(0, host, scope=1))
    refused(errno.EAFNOSUPPORT, channel.bind, channel.create(), bytes(16))
    refused(errno.EINVAL, channel.bind, channel.create(), address()[:8])
    refused(errno.EAFNOSUPPORT, channel.resolve_addr, channel.create(), bytes(16))
    number = channel.create()
    channel.bind(number, address6())
    refused(errno.EINVAL, channel.resolve_addr, number, address(5000))
    channel.resolve_addr(number, address6(5000, "::1"))
    refused(errno.EINVAL, channel.resolve_addr, number, address6(5000, "::1"))
    refused(errno.EINVAL, channel.listen, number)


@pytest.mark.parametrize("host", ["0.0.0.0", "127.9.9.9", "239.1.2.3"])
def test_source_of_what_is_not_bound(channel, host):
    """The loopback address is that of the device's interface here; a GID of InfiniBand is no source."""
    number = channel.create(UDP)
    channel.resolve(number, address(5000, host))
    assert channel.query(number, 0, 280)[20:24] == socket.inet_aton("127.0.0.1")
    number = channel.create(UDP)
    channel.resolve(number, address6(5000, "::"))
    assert channel.query(number, 0, 280)[24:40] == socket.inet_pton(socket.AF_INET6, "::1")


def test_qkey_of_datagrams(channel, other):
    """Who accepts may give a Q_Key of its own."""
    _, port = listener(channel, ps=UDP)
    client = ask(other, port, UDP)
    channel.accept(channel.event()[1], 3, 0x4321, qkey=0x11223344)
    kind, number, _, _, parameters = other.event()
    assert (kind, number) == (ESTABLISHED, client)
    assert struct.unpack_from("<II", parameters) == (0x4321, 0x11223344)


def test_groups_of_ipoib(channel):
    """Port space IPOIB has IPoIB's own groups; it is for InfiniBand."""
    number = channel.create(IPOIB, uid=5)
    if is_ethernet():
        refused(errno.EINVAL, channel.bind, number, address())
        channel.resolve_addr(number, address(5000, "239.1.2.3"))
        assert channel.event()[:3] == (ADDR_ERROR, number, -errno.EINVAL)
        assert channel.query(number, 0, 280)[20:24] == bytes(4)  # it has no source address
        # Loopback is found, and no route.
        channel.resolve_addr(number, address(5000, "0.0.0.0"))
        assert channel.event()[:2] == (ADDR_RESOLVED, number)
        refused(errno.ENODEV, channel.resolve_route, number)
        return
    channel.bind(number, address())
    group = address(0, "239.1.2.3")
    channel.command(JOIN_MCAST, struct.pack("<QQIHH", 0, 9, number, len(group), 0) +
                    group.ljust(128, b"\0"), 4, 0)
    kind, *_, parameters = channel.event()
    assert kind == MULTICAST_JOIN
    assert parameters[8:24] == b"\xff\x12\x40\x1b\xff\xff" + bytes(6) + b"\x0f\1\2\3"


def test_later_commands(channel):
    """Those of the newest release: no services are resolved, and events are a program's own."""
    number = channel.create(uid=5)
    refused(errno.EINVAL, channel.command, RESOLVE_IB_SERVICE, struct.pack("<I", number) + bytes(300))
    channel.command(WRITE_CM_EVENT, struct.pack("<IIIIQ", number, 0, INTERNAL, 0, 9) + bytes(296))
    assert channel.event()[:2] == (INTERNAL, number)


def test_threads(channel):
    """Several write, and several wait for events, on one file: each gets its own answers."""
    writers, waiters, rounds = 4, 3, 60
    kept, events, failures = [], [], []

    def caught(function):
        def run(*arguments):
            try:
                function(*arguments)
            except BaseException as error:  # pylint: disable=broad-except
                failures.append(error)
        return run

    @caught
    def write(uid):
        number = channel.create(uid=uid)
        kept.append(number)
        for i in range(rounds):
            passing = channel.create(uid=uid)
            channel.bind(passing, address())
            channel.command(WRITE_CM_EVENT,
                            struct.pack("<IIIIQ", number, 0, USER, 0, i) + bytes(296))
            port = channel.query(passing, 0, 280)[18:20]
            assert port != bytes(2)
            refused(errno.EADDRNOTAVAIL, channel.bind, number, address(*struct.unpack("!H", port)))
            assert channel.destroy(passing) == 0

    @caught
    def wait():
        for _ in range(writers * rounds // waiters):
            kind, number, _, uid, parameters = channel.event()
            assert kind == USER
            events.append((number, uid, struct.unpack_from("<Q", parameters)[0]))

    threads = [threading.Thread(target=wait, daemon=True) for _ in range(waiters)]
    threads += [threading.Thread(target=write, args=[1 + i], daemon=True) for i in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(50)
    assert not failures and not any(thread.is_alive() for thread in threads)
    assert len(set(kept)) == writers and len({number for number, _, _ in events}) == writers
    assert len(set(events)) == writers * rounds
    assert not channel.readable()
    assert [channel.destroy(number) for number in kept] == [rounds] * writers
