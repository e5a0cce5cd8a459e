# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
Guests with Linux's rxe, under QEMU, and a daemon on the other end of the network: a tap in a
namespace of its own. Both ends have the libibverbs of the guest's Debian.
"""
import contextlib
import os
import pathlib
import subprocess
import sys

from common import BUILD, Device, Launcher, expect_success, wait_until
from namespaces import IPV4, IPV6, inside, new_host
from releases import codename

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
MTU = 9000
BOOT = 300  # seconds; without KVM on a machine that is busy


def image_of(release):
    """That of Debian's release, made at the first time."""
    made = subprocess.run([HERE / "make-guest", release], stdout=subprocess.PIPE, text=True,
                          check=True)
    return pathlib.Path(made.stdout.strip())


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


@contextlib.contextmanager
def both_sides(image):
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
