# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
Guests with Linux's rxe, under QEMU, and a daemon on the other end of the network: a tap in a
namespace of its own. Each is booted once; both ends have the libibverbs of its Debian. A table of
what has passed comes at the end.
"""
import contextlib
import os
import pathlib
import subprocess
import sys

import pytest

import tables

HERE = pathlib.Path(__file__).resolve().parent
pytest.register_assert_rewrite("common", "namespaces")

from common import BUILD, Device, Launcher, expect_success  # noqa: E402 (its place is known now)
from common import wait_until  # noqa: E402
from namespaces import IPV4, IPV6, inside, new_host  # noqa: E402
from rdmacm import expect_no_ids  # noqa: E402
from releases import codename  # noqa: E402

MTU = 9000
BOOT = 300  # seconds; without KVM on a machine that is busy


@contextlib.contextmanager
def booted(pid, image):
    """QEMU, in the holder's namespaces; without KVM, which nested machines have half."""
    addresses = f"{IPV4[1]}/24,{IPV6[1]}/64"
    argv = [
        *inside(pid), "qemu-system-x86_64", "-accel", "tcg,thread=multi",
        "-cpu", "max,-pclmulqdq", "-m", 768, "-nodefaults", "-display", "none", "-no-reboot",
        "-serial", f"file:{os.environ.get('SIMHCA_GUEST_CONSOLE', '/dev/null')}",
        "-kernel", image / "vmlinuz", "-initrd", image / "initrd",
        "-append", "console=ttyS0 net.ifnames=0 mitigations=off panic=-1 quiet tsc=reliable "
                   f"no_timer_check guest.addresses={addresses} guest.mtu={MTU}",
        "-drive", f"file={image / 'disk'},format=raw,if=virtio,snapshot=on,file.locking=off",
        "-netdev", "tap,id=n0,ifname=eth0,script=no,downscript=no",
        "-device", f"virtio-net-pci,netdev=n0,romfile=,host_mtu={MTU},csum=off,guest_csum=off,"
                   "gso=off,guest_tso4=off,guest_tso6=off,host_tso4=off,host_tso6=off",
        "-device", "virtio-rng-pci"]
    with subprocess.Popen(map(str, argv), stdin=subprocess.DEVNULL) as qemu:
        try:
            yield qemu
        finally:
            qemu.kill()


# Debian's release that has it: the kernel.
KERNELS = {"bookworm": "6.1", "trixie": "6.12"}


@pytest.fixture(scope="session", params=KERNELS, ids=KERNELS.get)
def image(request):
    made = subprocess.run([HERE / "make-guest", request.param], stdout=subprocess.PIPE, text=True,
                          check=True)
    return pathlib.Path(made.stdout.strip())


def pytest_configure(config):
    config.addinivalue_line("markers", "new: of what Linux 6.1 does not have")


def is_run(item):
    """With Linux 6.12 what 6.1 does not have; SIMHCA_SOAK=1: all that it has."""
    new = item.get_closest_marker("new")
    if item.callspec.params["image"] == "trixie":
        return new or os.environ.get("SIMHCA_SOAK") == "1"
    return not new


def pytest_collection_modifyitems(config, items):
    config.hook.pytest_deselected(items=[item for item in items if not is_run(item)])
    items[:] = [item for item in items if is_run(item)]


ROOT = HERE.parent.parent
CHROOT = ROOT / "scripts" / "chroot"
# What a command needs to see of the host below a tree, in a mount namespace of its own; but of simhca what the tree
# has, wherever that lies.
SHOW = (f'mount --bind "$0{ROOT}" "$0/mnt"\n'
        'for here in proc dev tmp; do mount --rbind "/$here" "$0/$here"; done\n'
        f'mount --bind "$0/mnt" "$0{ROOT}"\n'
        'exec chroot "$0" "$@"')


@contextlib.contextmanager
def userspace_of(release):
    """The prefix of commands with a release's libibverbs: in a tree with simhca, built in this place."""
    def chroot(*argv):
        made = subprocess.run([CHROOT, *argv], stdout=subprocess.PIPE, text=True, check=True)
        return made.stdout.strip()

    if codename() == release:
        yield []
        return
    assert BUILD == ROOT / "build", "where the tree has it"
    tree = chroot("new", release, "build", "demo", "test")
    try:
        chroot("run", tree, "sh", "-ec", "apt-get -q update && apt-get -q install -y "
               "--no-install-recommends rdmacm-utils")
        chroot("source", tree, ROOT)
        chroot("run", "--chdir", ROOT, tree, "sh", "-ec",
               "cmake --preset release && cmake --build --preset release -- "
               "simhca simhcad simhca-preload simhca-provider >&2")
        yield ["unshare", "-m", "sh", "-ec", SHOW, tree]
    finally:
        chroot("remove", tree)


@pytest.fixture(scope="session")
def both(image):
    """{"ours": where simhca runs, "rxe": the guest}"""
    with contextlib.ExitStack() as stack:
        pid = stack.enter_context(new_host())
        userspace = stack.enter_context(userspace_of(image.name.split("-")[1]))
        launcher = Launcher(inside(pid))
        for words in (["tuntap", "add", "dev", "eth0", "mode", "tap"],
                      ["addr", "add", f"{IPV4[0]}/24", "dev", "eth0"],
                      ["addr", "add", f"{IPV6[0]}/64", "dev", "eth0", "nodad"],
                      ["link", "set", "eth0", "mtu", MTU, "up"], ["link", "set", "lo", "up"]):
            expect_success(launcher.run("ip", *words))
        qemu = stack.enter_context(booted(pid, image))
        guest = Launcher([*inside(pid), sys.executable, HERE / "remote.py", IPV4[1]])
        wait_until(lambda: qemu.poll() is not None or not guest.run("true").status, BOOT,
                   "the guest answers")
        assert qemu.poll() is None, "QEMU has ended"
        wait_until(lambda: "tentative" not in launcher.run("ip", "-6", "addr").stdout, 60,
                   "the link-local address can be used")
        ours = stack.enter_context(Device("ethernet", "--netdev=eth0",
                                          "--wire=roce",
                                          "--daemon-option=wire-rxe-flush=on",
                                          prefix=[*inside(pid), *userspace]))
        stack.callback(guest.kill_programs)
        yield {"ours": ours, "rxe": guest}


@pytest.fixture
def sides(both):
    yield both
    both["rxe"].kill_programs()
    both["ours"].kill_programs()
    both["ours"].expect_idle()
    expect_no_ids(both["ours"])


# ------------------------------------------------------------------------------ the table


def pytest_runtest_logreport(report):
    """A row for each test and its parameters but the client, who has a column."""
    if report.when != "call" and not report.failed:
        return
    name = report.nodeid.split("::")[1]
    what, _, parameters = name.rstrip("]").partition("[")
    words = parameters.split("-")
    client = next((word for word in words if word in ("ours", "rxe")), "")
    row = " ".join([what.removeprefix("test_"), *(word for word in words if word != client)])
    column = {"ours": "simhca is the client", "rxe": "rxe is the client"}.get(client, "both")
    tables.cell("rxe", row, column, f"{report.outcome} ({report.duration:.1f} s)")
