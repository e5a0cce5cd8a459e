# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
Programs that connect by rdma_cm, or in ways of their own, where there are three devices, each on a network interface of
its own, or all on one: at the address of the second or third both ends are that device's, and no other has anything to do
with it.
"""
import os

import pytest

from common import SIMHCA, Device, expect_success, new_port
from middleware import ucx_perftest
from rdmacm import expect_no_ids, run_both
from releases import needs

# Three interfaces. Exit status 77: they cannot be made here.
NETWORK = """
ip link set lo up
for n in 0 1 2; do
	ip link add v$n type veth peer name w$n && ip addr add 10.9.$n.1/24 dev v$n || exit 77
	ip link set v$n up; ip link set w$n up
done
exec "$@"
"""

# The server's and the client's arguments; ADDRESS is the device's, DEVICE its name, FILE one that can be written.
PROGRAMS = {
    "rping": ("rping -s -a ADDRESS -C 5", "rping -c -a ADDRESS -C 5"),
    "ucmatose": ("ucmatose -b ADDRESS -C 3", "ucmatose -s ADDRESS -b ADDRESS -C 3"),
    "udaddy": ("udaddy -b ADDRESS -C 3", "udaddy -s ADDRESS -b ADDRESS -C 3"),
    "mckey": ("mckey -m 239.1.2.3 -b ADDRESS -C 1", "mckey -m 239.1.2.3 -b ADDRESS -C 1 -s"),
    "rdma_client": ("rdma_server -s ADDRESS", "rdma_client -s ADDRESS"),
    "rdma_xclient": ("rdma_xserver -c r", "rdma_xclient -s ADDRESS -c r"),
    "rstream": ("rstream -b ADDRESS -S 4096 -I 3 -C 10", "rstream -s ADDRESS -S 4096 -I 3 -C 10"),
    "riostream": ("riostream -b ADDRESS -S 4096 -I 3 -C 10", "riostream -s ADDRESS -S 4096 -I 3 -C 10"),
    "rcopy": ("rcopy", "rcopy /usr/bin/env ADDRESS:FILE"),
    "cmtime": ("cmtime -b ADDRESS -c 10", "cmtime -s ADDRESS -b ADDRESS -c 10 -q 100000"),
    "perftest": ("ib_send_bw -z -F -n 50 -d DEVICE", "ib_send_bw -z -F -n 50 -d DEVICE ADDRESS"),
    "qperf": ("qperf", "qperf ADDRESS -cm 1 -t 1 rc_lat"),
    "UCX": ("env UCX ucx_perftest", "env UCX ucx_perftest ADDRESS -t tag_lat -n 50 -w 0"),
    "libfabric": ("fi_pingpong -p verbs -e msg -d DEVICE -I 50 -S 1024",
                  "fi_pingpong -p verbs -e msg -d DEVICE -I 50 -S 1024 ADDRESS"),
    "fio": ("fio --ioengine=rdma --port=7480 --bs=4k --size=64k --name=server --rw=read",
            "fio --ioengine=rdma --port=7480 --bs=4k --size=64k --name=client --rw=write --hostname=ADDRESS --verb=write"),
    "dtest-ofa": ("dtest -P simhca-ofa -s -b 4096 -B 5 -p", "dtest -P simhca-ofa -h ADDRESS -b 4096 -B 5 -p"),
    "dtest-scm": ("dtest -P simhca-scm -s -b 4096 -B 5 -p", "dtest -P simhca-scm -h ADDRESS -b 4096 -B 5 -p"),
}
# Words of what is above.
UCX = "UCX_TLS=rc_v,self UCX_NET_DEVICES={}:1 UCX_IB_GID_INDEX=auto UCX_UD_TIMER_TICK=1s UCX_WARN_UNUSED_ENV_VARS=n"
DAT_CONF = """simhca-ofa u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 "ADDRESS 0" ""
simhca-scm u2.0 nonthreadsafe default libdaploscm.so.2 dapl.2.0 "DEVICE 1" ""
"""
STAY = ("rcopy", "cmtime", "qperf")  # their servers go on

BOTH = """
import pathlib, subprocess, sys, time

def packets(number):
    path = pathlib.Path(f"/sys/class/infiniband/simhca{number}/ports/1/counters/port_xmit_packets")
    return int(path.read_text())

server, client, used, stays = sys.argv[1].split(), sys.argv[2].split(), int(sys.argv[3]), sys.argv[4] == "True"
ends = [-9] if stays else [0]
if client[0] == "cmtime":
    usage = subprocess.run(["cmtime", "-h"], capture_output=True, text=True)
    if "base_qpn" not in usage.stdout + usage.stderr:
        del client[client.index("-q"):]
    else:
        ends.append(0)  # a while after its client
listener = subprocess.Popen(server, stdout=subprocess.DEVNULL)
for _ in range(20):  # until it listens
    time.sleep(0.3)
    done = subprocess.run(client, capture_output=True, text=True, timeout=30)
    if not done.returncode or listener.poll() is not None:
        break
if stays or done.returncode:
    listener.kill()
assert not done.returncode, done
assert listener.wait(20) in (ends), listener
if client[0] != "cmtime":  # which sends nothing by its connections
    for _ in range(50):  # counters are brought up to date now and then
        if packets(used):
            break
        time.sleep(0.1)
    assert packets(used)
assert not any(packets(number) for number in range(3) if number != used)
"""


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("name", [pytest.param(name, marks=needs("dtest")) if name.startswith("dtest") else name
                                  for name in PROGRAMS])
def test_at_its_address(launcher, tmp_path, name, number):
    words = {"ADDRESS": f"10.9.{number}.1", "DEVICE": f"simhca{number}", "FILE": str(tmp_path / "copied"),
             "env UCX ucx_perftest": " ".join(["env", UCX.format(f"simhca{number}"), *map(str, ucx_perftest())])}
    server, client = PROGRAMS[name]
    conf = DAT_CONF
    for word, text in words.items():
        server, client, conf = (each.replace(word, text) for each in (server, client, conf))
    (tmp_path / "dat.conf").write_text(conf)
    devices = [word for n in range(3) for word in ("--daemon-option", f"device=simhca{n},netdev=v{n}")]
    # Root needs no user namespace, of which the kernel makes none in a chroot.
    result = launcher.run("unshare", "-n" if os.geteuid() == 0 else "-Urn", "sh", "-c", NETWORK, "sh", SIMHCA, "run",
                          "--private", "--devices", 3, *devices, "--", "/usr/bin/python3", "-c", BOTH, server, client,
                          number, name in STAY, DAT_OVERRIDE=str(tmp_path / "dat.conf"))
    if result.status == 77:
        pytest.skip("no network interface can be made here")
    expect_success(result)


def test_all_have_the_address(link_layer):
    """All devices have the interface's addresses; a request comes to the one that listens."""
    with Device(link_layer, "--devices=3") as device:
        for server, client in (("rdma_server -s 127.0.0.1 -p", "rdma_client -s 127.0.0.1 -p"),
                               ("rping -s -C 5 -p", "rping -c -a 127.0.0.1 -C 5 -p"),
                               ("ucmatose -p", "ucmatose -s 127.0.0.1 -p"),
                               ("rstream -S 4096 -I 3 -C 10 -p", "rstream -s 127.0.0.1 -S 4096 -I 3 -C 10 -p")):
            port = new_port()
            run_both(device, port, [*server.split(), port], [*client.split(), port])
        expect_no_ids(device)
