# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Whether somebody listens on a TCP port, which most other tests ask, also of other network namespaces."""
import contextlib
import socket

import pytest

from common import Launcher, expect_success
from listening import is_listened_on, listening_ports, new_port, wait_command
from namespaces import another_host, inside, listens, namespaces_can_be_had, new_host

LISTEN = "import socket, time; s = socket.create_server(('', {})); print('here', flush=True); time.sleep(600)"


@pytest.mark.parametrize("family, address", [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "0.0.0.0"),
                                             (socket.AF_INET6, "::1"), (socket.AF_INET6, "::")])
def test_who_listens(family, address):
    """Who is bound does not, nor is a connection a listener, which has the port as well."""
    with socket.socket(family) as listener:
        try:
            listener.bind((address, 0))
        except OSError:
            pytest.skip(f"no {address} here")
        port = listener.getsockname()[1]
        assert not is_listened_on(port)
        listener.listen()
        assert is_listened_on(port) and port in listening_ports() and listening_ports(port=port) == {port}
        client = socket.create_connection(("127.0.0.1" if family == socket.AF_INET else "::1", port))
        connection, _ = listener.accept()
    with client, connection:
        assert connection.getsockname()[1] == port and not is_listened_on(port)


def test_many_listeners():
    """The answer has more than one part."""
    with contextlib.ExitStack() as stack:
        ports = {stack.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1] for _ in range(900)}
        assert len(ports) == 900 and ports <= listening_ports()


def test_ports_are_new():
    with socket.create_server(("127.0.0.1", (taken := new_port()) + 1)):
        assert new_port() == taken + 2


def test_in_a_shell(launcher):
    port = new_port()
    server = launcher.start("/usr/bin/python3", "-c", LISTEN.format(port))
    expect_success(launcher.run("sh", "-c", wait_command(port)))
    assert server.running


@pytest.mark.skipif(not namespaces_can_be_had(), reason="no user namespaces, or no virtual Ethernet in them")
def test_in_another_namespace():
    """There alone."""
    port = new_port()
    with new_host() as first, another_host(first) as second:
        hosts = [Launcher(inside(pid)) for pid in (first, second)]
        server = hosts[1].start("/usr/bin/python3", "-u", "-c", LISTEN.format(port))
        expect_success(hosts[1].run("sh", "-c", wait_command(port)))
        assert [listens(host, port) for host in hosts] == [False, True] and not is_listened_on(port)
        server.kill()
        assert not listens(hosts[1], port)
