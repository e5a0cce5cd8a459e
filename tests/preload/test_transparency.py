# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""A program that has nothing to do with RDMA behaves byte for byte as without the library."""
import os
import shutil
import socket
import subprocess
import sys

import pytest

from fakes import clean_environment, need

COMMANDS = [
    "true", "false", "pwd", "id", "uname -a",
    "ls -la", "ls -la /dev/null /dev/zero /dev/tty", "ls -ln /etc", "ls -laR .", "ls /nonexistent",
    # Without times: in sysfs that of a link changes when its attributes are first listed, as by ls.
    "ls -l --time-style=+ /sys/class/net /sys/class/misc", "ls -di / /sys /dev",
    "cat file", "cat nonexistent", "cat directory", "cat link", "cat loop", "cat dangling",
    "cat fifo-none < file", "cat ''", "cat /dev/null", "cat unreadable/..",
    "stat -c '%n %F %a %s %h %d %i %t:%T' file link directory socket /dev/null",
    "stat -L link dangling", "stat -c %F -", "stat -c %F - < file",
    "find . -ls", "find . -type s", "find . -type l", "find /dev -maxdepth 1 -type c",
    "find -L . -name 'f*'", "grep -rn needle .", "grep -c needle file", "grep needle nonexistent",
    "head -c 3 file", "tail -n 1 file", "wc file", "sort -r file", "md5sum file link directory",
    "cp file copy; cat copy; rm copy", "cp -a . ../copy; ls -lR --time-style=+ ../copy; "
    "rm -r ../copy", "mv file other; ls; mv other file", "touch -d @0 new; stat -c %Y new; rm new",
    "mkdir -p a/b/c; find a; rmdir -p a/b/c", "ln -s file new; readlink new; rm new",
    "readlink -f link", "readlink -m directory/../x/../y", "realpath link directory/.. loop",
    "realpath /proc/self/../self/ns/net | tr -d 0-9", "test -S socket", "test -c /dev/null",
    "test -S file", "test -r file -a -x directory", "[ file -nt link ]", "du -a .",
    "df / >/dev/null", "tar cf - --mtime=@0 file link directory | md5sum",
    "dd if=file bs=2 count=2 status=none", "od -c file", "seq 5 | xargs -n2 echo",
    "echo 'a b' > out; cat out; rm out", "cat < nonexistent", "bash -c 'echo {1..3} *; cd link'",
    "bash -c 'read x < file; echo $x; type cat; cd directory; pwd; cd ..; echo ~+'",
    "bash -c 'exec 5<>file; cat <&5; ls -l /proc/self/fd/5 | cut -c1-10'",
    "cat /sys/class/net/lo/address", "ls /sys/class/infinibandx", "ls /dev/infiniband_not",
    "cat /proc/self/comm", "echo x > /dev/full", "cat socket", "mkdir /dev/null/x", "chdir",
    "diff file link", "cmp file nonexistent", "timeout 0.1 sleep 5", "nproc", "tty", "sync -f file",
    "sed -n 2p file", "awk 'END { print NR }' file nonexistent", "sha256sum < file",
    "install -m 600 file new; stat -c %a new; rm new", "truncate -s 5 new; wc -c new; rm new",
]

PYTHON = r"""
import errno, glob, io, os, shutil, socket, stat, subprocess, tempfile

def attempt(function, *args, **kwargs):
    try:
        value = function(*args, **kwargs)
    except OSError as error:
        value = error
    print(function.__name__, args[:1], value)

for name in ("file", "link", "dangling", "loop", "directory", "socket", "nonexistent", "", "/",
             "directory/../file", "/dev/null", "/sys", "/sys/class", "/dev", "x" * 300,
             "/" + "y/" * 3000, "file/below", "nul\u00e9"):
    for function in (os.listdir, os.readlink, os.path.exists, os.path.realpath, os.path.isfile):
        attempt(function, name) if name not in ("/dev", "/sys/class") else None
    for function in os.stat, os.lstat:
        try:
            st = function(name)
            print(stat.filemode(st.st_mode), st.st_rdev, st.st_ino if name != "/sys" else "")
        except OSError as error:
            print(error)
    for mode in os.F_OK, os.R_OK, os.W_OK, os.X_OK:
        print(os.access(name, mode), os.access(name, mode, follow_symlinks=False))
    attempt(os.getxattr, name, "user.nothing")
    attempt(os.listxattr, name)
print(sorted(glob.glob("*")), sorted(os.walk(".")))
fd = os.open("new", os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o640)
print(oct(os.fstat(fd).st_mode), os.write(fd, b"text"), os.pread(fd, 9, 0))
attempt(os.open, "new", os.O_CREAT | os.O_EXCL)
os.unlink("new")
fd = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600)
print(oct(os.fstat(fd).st_mode))
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
print(oct(os.fstat(a.fileno()).st_mode), os.fstat(a.fileno()).st_rdev)
with socket.socket() as server, socket.socket() as client:
    server.bind(("127.0.0.1", 0)); server.listen(); client.connect(server.getsockname())
    print(stat.S_ISSOCK(os.fstat(client.fileno()).st_mode))
attempt(socket.socket, socket.AF_NETLINK, socket.SOCK_RAW, 99)
print(socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0).family)
print(subprocess.run(["cat", "file"], capture_output=True).stdout)
if not os.fork():
    print(open("file").read(), flush=True)
    os._exit(0)
os.wait()
import fcntl, termios
attempt(fcntl.ioctl, a.fileno(), 0xc0181b01, bytes(24))
attempt(fcntl.ioctl, 0, termios.TIOCGWINSZ, bytes(8))
attempt(fcntl.ioctl, 99, termios.FIONREAD)
"""


@pytest.fixture
def directory(tmp_path):
    here = tmp_path / "here"
    here.mkdir()
    (here / "file").write_text("first\nneedle\nlast\n")
    (here / "directory").mkdir()
    (here / "directory" / "inner").write_text("needle")
    (here / "link").symlink_to("file")
    (here / "dangling").symlink_to("nowhere")
    (here / "loop").symlink_to("loop")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        before = os.getcwd()
        os.chdir(here)
        listener.bind("socket")
        listener.listen()
        os.chdir(before)
        yield here


def both(argv, directory, preloaded):
    results = []
    for env in clean_environment(), preloaded:
        done = subprocess.run(argv, cwd=directory, env=env, capture_output=True, timeout=60,
                              stdin=subprocess.DEVNULL, check=False)
        results.append((done.returncode, done.stdout, done.stderr))
    return results


@pytest.mark.parametrize("command", COMMANDS)
def test_command(command, directory, preloaded):
    without, with_library = both(["sh", "-c", command], directory, preloaded)
    assert with_library == without


def test_python_script(directory, preloaded):
    without, with_library = both([sys.executable, "-c", PYTHON], directory, preloaded)
    assert b"Traceback" not in without[2]
    assert with_library == without


def test_compiler(directory, preloaded):
    """A program that opens hundreds of files by many ways."""
    compiler = shutil.which("cc")
    if not compiler:
        pytest.skip("no compiler here")
    (directory / "hello.c").write_text("#include <stdio.h>\nint main(void) { puts(\"x\"); }\n")
    without, with_library = both([compiler, "-H", "-c", "hello.c", "-o", "/dev/null"], directory,
                                 preloaded)
    assert with_library == without
    assert without[0] == 0


def test_static_programs_are_not_affected(preloaded, directory):
    """LD_PRELOAD does not reach them: they see the host and run as ever."""
    need("SIMHCA_PRELOAD")
    without, with_library = both(["/sbin/ldconfig", "--version"], directory, preloaded)
    assert with_library == without
