# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Fixtures. Without a device pytest gets one, by `simhca run --private` (conftest.py of the tree)."""
import faulthandler
import signal

import pytest

import programs
from harness import FULL, RC, Device, Memory, PD, Region, Side, connect

TIME_LIMIT = 60  # seconds that one test may take


def _give_up(_number, _frame):
    raise TimeoutError(f'the test took longer than {TIME_LIMIT} s')


@pytest.fixture(autouse=True)
def watchdog(request):
    """
    No test hangs: the alarm interrupts system calls and Python code; a test that is stuck all
    the same, in C with the interpreter's lock held, ends the run with a traceback.
    """
    mark = request.node.get_closest_marker('time_limit')
    seconds = mark.args[0] if mark else TIME_LIMIT
    old = signal.signal(signal.SIGALRM, _give_up)
    signal.alarm(seconds)
    faulthandler.dump_traceback_later(seconds + 30, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()
    signal.alarm(0)
    signal.signal(signal.SIGALRM, old)


def pytest_configure(config):
    config.addinivalue_line('markers', 'time_limit(seconds): how long this test may take')
    config.addinivalue_line('markers', 'once: neither the link layer nor a sanitizer adds to it')
    config.addinivalue_line('markers', 'addresses: the link layer has a say in it')


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report):
    """
    Without a device each further test would fail of the same cause. 70 is the exit status of which
    tests/suites/part.py knows that.
    """
    if report.failed and programs.device_is_gone():
        pytest.exit('the device has ended: no further test is run', returncode=70)


@pytest.fixture
def keep():
    """keep(object) closes the object after the test; last kept, first closed."""
    kept = []

    def add(thing):
        kept.append(thing)
        return thing

    yield add
    for thing in reversed(kept):
        thing.close()


@pytest.fixture
def device(keep):
    return keep(Device())


@pytest.fixture
def ctx(device):
    return device.ctx


@pytest.fixture
def pd(ctx, keep):
    return keep(PD(ctx))


@pytest.fixture
def ethernet(device):
    """Whether the link layer is Ethernet; else it is InfiniBand."""
    return device.ethernet


@pytest.fixture
def memory(keep):
    """memory(length, prot): pages of our own."""
    return lambda *arguments, **options: keep(Memory(*arguments, **options))


@pytest.fixture
def region(pd, keep):
    """region(length, access): a region of the test's PD."""
    return lambda length, access=FULL, memory=None: keep(Region(pd, length, access, memory))


@pytest.fixture
def side(keep):
    """side(type, ...): one end, in RESET."""
    return lambda *arguments, **options: keep(Side(*arguments, **options))


@pytest.fixture
def pair(side):
    """pair(type, client={...}, server={...}, ...): two ends, connected, in RTS."""

    def make(qp_type=RC, client=None, server=None, client_has=None, server_has=None, **both):
        one = side(qp_type, **{**both, **(client or {})})
        other = side(qp_type, **{**both, **(server or {})})
        connect(one, other, client_has, server_has)
        return one, other

    return make


@pytest.fixture(scope='session')
def c_program(tmp_path_factory):
    """c_program('x.c'): the path of tests/programs/x.c, compiled."""
    directory = tmp_path_factory.mktemp('c')
    made = {}

    def make(source):
        if source not in made:
            made[source] = programs.compiled(source, directory)
        return made[source]

    return make
