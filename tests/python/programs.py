# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Programs that tests start: on a device of their own, on ours, or compiled from C."""
import contextlib
import ctypes
import errno
import json
import os
import shlex
import subprocess
import sys
import time

from harness import HERE, REPO

C_PROGRAMS = os.path.join(REPO, 'tests', 'programs')
BUILD = os.path.abspath(os.environ.get('SIMHCA_BUILD') or os.path.join(REPO, 'build'))
SIMHCA = os.path.join(BUILD, 'bin', 'simhca')
OURS = ('SIMHCA_RUNTIME_DIR', 'IBV_DRIVERS', 'RDMAV_DRIVERS')


def outside():
    """The environment as it was before `simhca run`, for a device that is not ours."""
    env = {name: value for name, value in os.environ.items() if name not in OURS}
    preload = [name for name in env.pop('LD_PRELOAD', '').replace(':', ' ').split()
               if 'libsimhca-preload' not in name]
    if preload:
        env['LD_PRELOAD'] = ':'.join(preload)
    env['SIMHCA_BUILD'] = BUILD
    return env


# Without these the agent is the only way to a client's memory.
PROCESS_VM = ('process_vm_readv', 'process_vm_writev')


def helper(name):
    return os.path.join(HERE, 'helpers', name)


def private(command, *options, timeout=120, forbidden=(), env=None, run_in=()):
    """
    Runs command on a device of its own, made with these options, and returns how it ended. run_in:
    what is to start both, with its arguments; forbidden: system calls that both are refused.
    """
    if forbidden:  # by a program: a function of ours would run between fork() and exec(), where a sanitizer may hold locks
        run_in = [sys.executable, helper('without.py'), ','.join(forbidden), *run_in]
    return subprocess.run([*run_in, SIMHCA, 'run', '--private', *options, '--', *command],
                          env={**outside(), **(env or {})}, timeout=timeout, text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, check=False)


def private_python(name, *arguments, options=(), **keywords):
    """A helper of ours on a device of its own; its standard output."""
    done = private([sys.executable, helper(name), *arguments], *options, **keywords)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def private_tests(*selection, options=(), **keywords):
    """Tests of this directory (test_x.py or test_x.py::test_y) on a device of their own."""
    command = [sys.executable, '-m', 'pytest', '-q', '-x', '-p', 'no:cacheprovider',
               *[os.path.join(HERE, name) if name.startswith('test_') else name
                 for name in selection]]
    done = private(command, *options, timeout=300, **keywords)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def compiled(source, directory, *flags, library=False, dv=False, compiler=None):
    """
    Compiles a program of tests/programs, or a source by its whole path, against libibverbs; its path. As a library
    it is for ctypes. dv: with the direct verbs of the build tree, or with the library that it names, which,
    if it has a sanitizer, leaves symbols to the runtime that is preloaded.
    """
    stem = os.path.basename(source).rsplit('.', 1)[0]
    target = os.path.join(str(directory), f'{stem}.so' if library else stem)
    command = [compiler or os.environ.get('CC', 'cc'), '-Wall', '-Wextra', '-D_GNU_SOURCE',
               *(flags or ['-std=gnu11']),
               *shlex.split(os.environ.get('CFLAGS', '-O1 -g' if dv else '-O2 -g'))]
    if library:
        command += ['-shared', '-fPIC']
    command += [f'-I{BUILD}/include', f'-I{REPO}/kernel-abi']
    command += ['-o', target, os.path.join(C_PROGRAMS, source)]
    if dv:
        lib = os.path.join(BUILD, 'lib')
        library = 'simhca' if dv is True else dv
        command += [f'-L{lib}', f'-Wl,-rpath,{lib}', '-Wl,--allow-shlib-undefined', f'-l{library}']
    subprocess.run([*command, '-libverbs', '-pthread'], check=True)
    return target


def run_c(program, *arguments, timeout=120):
    """Runs a compiled helper on our device; what it says on failure is shown."""
    done = subprocess.run([program, *arguments], timeout=timeout, text=True, capture_output=True,
                          check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _ask_status():
    env = {**outside(), 'SIMHCA_RUNTIME_DIR': os.environ['SIMHCA_RUNTIME_DIR']}
    return subprocess.run([SIMHCA, 'status', '--json'], env=env, timeout=30, text=True, capture_output=True, check=False)


def device_is_gone():
    """Whether the daemon of the device that this process runs on has ended, as far as that can be told."""
    if 'SIMHCA_RUNTIME_DIR' not in os.environ:
        return False
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        for _ in range(20):  # one that is just ending may have taken the request
            done = _ask_status()
            if done.returncode == 0 or 'no daemon runs' in done.stderr:
                return done.returncode != 0
            time.sleep(0.1)
    return False


def daemon_status():
    """What `simhca status` says of the daemon of the device that this process runs on."""
    done = _ask_status()
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def device_status(name):
    """The same of one of its devices."""
    return next(device for device in daemon_status()['devices'] if device['name'] == name)


def listed(what, **match):
    """The objects of this process that `simhca qp` or `simhca mr` shows and that match."""
    env = {**outside(), 'SIMHCA_RUNTIME_DIR': os.environ['SIMHCA_RUNTIME_DIR']}
    done = subprocess.run([SIMHCA, what, '--json'], env=env, timeout=30, text=True,
                          capture_output=True, check=True)
    text = subprocess.run([SIMHCA, what], env=env, timeout=30, text=True, capture_output=True,
                          check=True).stdout
    found = [entry for entry in json.loads(done.stdout)
             if all(entry[key] == value for key, value in match.items())]
    assert len(text.splitlines()) >= len(found)
    return found


def forbid_system_call(*names):
    """
    From now on the kernel refuses these system calls to this process and all that it starts, as
    the seccomp profiles of containers do.
    """
    seccomp = ctypes.CDLL('libseccomp.so.2', use_errno=True)
    seccomp.seccomp_init.restype = ctypes.c_void_p
    seccomp.seccomp_load.argtypes = [ctypes.c_void_p]
    allow, refuse = 0x7fff0000, 0x00050000 | errno.EPERM
    context = ctypes.c_void_p(seccomp.seccomp_init(ctypes.c_uint32(allow)))
    for name in names:
        number = seccomp.seccomp_syscall_resolve_name(name.encode())
        if seccomp.seccomp_rule_add(context, ctypes.c_uint32(refuse), number, 0):
            raise OSError(f'no seccomp rule for {name}')
    if seccomp.seccomp_load(context):
        raise OSError('the seccomp filter was not loaded')


def free_huge_pages():
    """Those of 2 MiB, not promised to anybody yet."""
    def number(name):
        with open(f'/sys/kernel/mm/hugepages/hugepages-2048kB/{name}', encoding='ascii') as file:
            return int(file.read())
    try:
        return number('free_hugepages') - number('resv_hugepages')
    except FileNotFoundError:
        return 0
