# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Completion events: what arms, what raises one, and that none is lost or comes twice."""
import os
import signal
import time

import pytest
import verbs_enums as e
from pyverbs.cq import CQ
from pyverbs.pyverbs_error import PyverbsRDMAError

import programs
from harness import SEND, SEND_IMM, SIGNALED, WRITE_IMM, Channel, connect, poll, poll_ok
from programs import run_c

SOAK = os.environ.get('SIMHCA_SOAK') == '1'
SOLICITED = SIGNALED | e.IBV_SEND_SOLICITED


@pytest.fixture
def armed(side):
    """A connected pair whose server has a receive CQ with a channel: (client, server, channel)."""
    client, probe = side(), side()
    channel = Channel(probe.ctx)
    cq = CQ(probe.ctx, 100, None, channel.channel)
    server = side(device=probe.device, pd=probe.pd, rcq=cq)
    connect(client, server)
    for _ in range(20):
        server.recv(server.region.sge(0, 100))
    yield client, server, channel
    server.qp.close()
    cq.close()
    channel.close()


def _send(client, flags=SIGNALED, opcode=SEND, **options):
    client.send(opcode, client.region.sge(0, 8), flags=flags, **options)
    return poll_ok(client.scq)


def test_not_armed(armed):
    """Without arming there is no event."""
    client, server, channel = armed
    _send(client)
    channel.silent()
    poll_ok(server.rcq)


def test_one_event_per_arm(armed):
    """Arming is used up by one event, however many completions come."""
    client, server, channel = armed
    for _ in range(3):
        server.rcq.req_notify()
        for _ in range(3):
            _send(client)
        channel.event(server.rcq)
        channel.silent()
        poll_ok(server.rcq, 3)


def test_arming_twice_is_one_event(armed):
    """Arming what is armed adds nothing."""
    client, server, channel = armed
    server.rcq.req_notify()
    server.rcq.req_notify()
    _send(client)
    _send(client)
    channel.event(server.rcq)
    channel.silent()


def test_no_event_for_what_is_there(armed):
    """Arming looks forward: completions that wait already raise no event."""
    client, server, channel = armed
    _send(client)
    time.sleep(0.02)
    server.rcq.req_notify()
    channel.silent()
    _send(client)
    channel.event(server.rcq)
    poll_ok(server.rcq, 2)


def test_solicited(armed):
    """Armed for solicited completions: a plain receive is none, one that was asked for is."""
    client, server, channel = armed
    server.rcq.req_notify(solicited_only=True)
    _send(client)
    channel.silent()
    _send(client, SOLICITED)
    channel.event(server.rcq)
    _send(client, SOLICITED)
    channel.silent()


@pytest.mark.parametrize('opcode', [SEND_IMM, WRITE_IMM])
def test_solicited_with_immediate(armed, opcode):
    """Immediate data alone solicits nothing; the flag does, with an RDMA write as well."""
    client, server, channel = armed
    server.rcq.req_notify(solicited_only=True)
    place = server.region.at() if opcode == WRITE_IMM else None
    _send(client, opcode=opcode, to=place)
    channel.silent()
    _send(client, SOLICITED, opcode, to=place)
    channel.event(server.rcq)


def test_solicited_is_about_receives(side, keep):
    """The sender's own completion is not solicited by its own flag."""
    probe, server = side(), side()
    channel = Channel(probe.ctx)
    cq = CQ(probe.ctx, 100, None, channel.channel)
    client = side(device=probe.device, pd=probe.pd, scq=cq)
    connect(client, server)
    server.recv()
    server.recv()
    cq.req_notify(solicited_only=True)
    client.send(SEND, client.region.sge(0, 8), flags=SOLICITED)
    poll_ok(server.rcq)
    channel.silent()
    cq.req_notify()
    client.send(SEND, client.region.sge(0, 8))
    channel.event(cq)
    client.qp.close()
    cq.close()
    channel.close()


def test_errors_are_solicited(armed):
    """A completion in error raises an event even on a CQ armed for solicited ones."""
    _, server, channel = armed
    server.rcq.req_notify(solicited_only=True)
    server.to(e.IBV_QPS_ERR)
    channel.event(server.rcq)
    assert poll(server.rcq)[0].status == e.IBV_WC_WR_FLUSH_ERR


def test_solicited_does_not_weaken(armed):
    """Armed for any completion, and then for solicited ones: any will do."""
    client, server, channel = armed
    server.rcq.req_notify()
    server.rcq.req_notify(solicited_only=True)
    _send(client)
    channel.event(server.rcq)


def test_next_strengthens_solicited(armed):
    """Armed for solicited completions, and then for any: any will do."""
    client, server, channel = armed
    server.rcq.req_notify(solicited_only=True)
    server.rcq.req_notify()
    _send(client)
    channel.event(server.rcq)


def test_blocking(armed):
    """ibv_get_cq_event waits for an event that comes later."""
    client, server, channel = armed
    server.rcq.req_notify()
    child = os.fork()
    if not child:
        time.sleep(0.3)
        client.send(SEND, client.region.sge(0, 8))
        os._exit(0)
    start = time.monotonic()
    channel.channel.get_cq_event(server.rcq)
    server.rcq.ack_events(1)
    assert time.monotonic() - start > 0.2
    os.waitpid(child, 0)
    poll_ok(server.rcq)


def test_blocking_is_interrupted(armed):
    """A signal ends the wait."""
    _, server, channel = armed
    server.rcq.req_notify()
    old = signal.signal(signal.SIGUSR1, lambda *_: None)
    child = os.fork()
    if not child:
        time.sleep(0.2)
        os.kill(os.getppid(), signal.SIGUSR1)
        os._exit(0)
    try:
        with pytest.raises(PyverbsRDMAError):
            channel.channel.get_cq_event(server.rcq)
    finally:
        os.waitpid(child, 0)
        signal.signal(signal.SIGUSR1, old)


def test_several_cqs_on_a_channel(side, keep):
    """Each event says whose it is."""
    probe, client = side(), side()
    channel = Channel(probe.ctx)
    cqs = [CQ(probe.ctx, 10, None, channel.channel, comp_vector=vector % 2)
           for vector in range(3)]
    clients, servers = [], []
    for cq in cqs:
        clients.append(side(device=client.device, pd=client.pd))
        servers.append(side(device=probe.device, pd=probe.pd, rcq=cq))
        connect(clients[-1], servers[-1])
        servers[-1].recv()
        servers[-1].recv()
        cq.req_notify()
    for number in (2, 0, 1):
        _send(clients[number])
        channel.event(cqs[number])
    channel.silent()
    for number in range(3):
        servers[number].qp.close()
        cqs[number].close()
    channel.close()


def test_destroy_drops_events(side, keep):
    """Destroying a CQ takes its events, which nobody has read, out of the channel."""
    probe, client = side(), side()
    channel = Channel(probe.ctx)
    gone, stays = (CQ(probe.ctx, 10, None, channel.channel) for _ in range(2))
    ends = []
    for cq in (gone, stays):
        end = side(device=client.device, pd=client.pd)
        server = side(device=probe.device, pd=probe.pd, rcq=cq)
        connect(end, server)
        server.recv()
        cq.req_notify()
        ends.append((end, server))
    for end, _ in ends:
        _send(end)
    ends[0][1].qp.close()
    gone.close()
    channel.event(stays)
    channel.silent()
    ends[1][1].qp.close()
    stays.close()
    channel.close()


def test_ping_pong_with_events(side):
    """A thousand turns in which each side sleeps until its event."""
    ends, channels, cqs = [], [], []
    for _ in range(2):
        probe = side()
        channels.append(Channel(probe.ctx))
        cqs.append(CQ(probe.ctx, 10, None, channels[-1].channel))
        ends.append(side(device=probe.device, pd=probe.pd, rcq=cqs[-1]))
    connect(*ends)
    for turn in range(1000):
        here, there = ends[turn % 2], ends[1 - turn % 2]
        there.recv(there.region.sge(0, 64))
        cqs[1 - turn % 2].req_notify()
        here.region.write(turn.to_bytes(4, 'big'))
        here.send(SEND, here.region.sge(0, 4))
        channels[1 - turn % 2].event(cqs[1 - turn % 2])
        poll_ok(cqs[1 - turn % 2])
        poll_ok(here.scq)
        assert there.region.read(4) == turn.to_bytes(4, 'big')
    for end, channel, cq in zip(ends, channels, cqs):
        end.qp.close()
        cq.close()
        channel.close()


@pytest.mark.parametrize('options, raises', [
    ([], 'no'), (['--daemon-option', 'event-at-arm=on'], 'yes'),
    (['--device', 'simhca0,event-at-arm=on'], 'yes'), (['--daemon-option', 'event-at-arm=off'], 'no'),
], ids=['default', 'on', 'one device', 'off'])
def test_event_at_arm(tmp_path, options, raises):
    """The device option: whether arming what holds completions raises an event."""
    program = programs.compiled('event_at_arm.c', tmp_path, dv=True)
    done = programs.private([program, raises], *options)
    assert done.returncode == 0, done.stdout + done.stderr


def test_notify_after_death(tmp_path):
    """simhcadv_req_notify_cq() on a device that is gone: who waits for an event must hear of it."""
    program = programs.compiled('notify_after_death.c', tmp_path, dv=True)
    done = programs.private([program])
    # `simhca run` fails, as its daemon has died.
    assert done.stdout == 'told of it\n', done.stdout + done.stderr


# Messages of each way to hammer.
RACES = 1000000 if SOAK else 5000


@pytest.fixture(scope='module')
def hammer(tmp_path_factory):
    return programs.compiled('cq_hammer.c', tmp_path_factory.mktemp('hammer'), dv=True)


@pytest.mark.time_limit(3600 if SOAK else 120)
@pytest.mark.parametrize('options', [
    '-p 2 -q 1', '-p 4 -q 2', '-p 4 -q 2 -h', '-p 4 -q 2 -f -h', '-p 6 -q 3 -c 2', '-p 6 -q 3 -c 2 -h',
    '-p 4 -q 2 -f -m',
])
def test_races(hammer, options):
    """
    Arming races completions: no wake-up is lost, no event comes for nothing, and the hint is exact.
    -p producers (-f: processes) on -q CQs of one channel that -c threads wait on; -h with the
    missed-event hint; -m with moderation.
    """
    print(run_c(hammer, '-n', str(RACES), *options.split(), timeout=3500 if SOAK else 110))
