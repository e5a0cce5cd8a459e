# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
No verb is a cancellation point. cancelled.c tries those that it has; this looks at which of the C
library's cancellation points (pthreads(7)) what runs in a program could call at all.
"""
import os
import re
import subprocess

import pytest

from harness import REPO
from programs import BUILD

POINTS = set('''
    accept accept4 clock_nanosleep close connect creat epoll_pwait epoll_wait eventfd_read
    eventfd_write fdatasync fsync getrandom lockf mq_receive mq_send mq_timedreceive mq_timedsend
    msgrcv msgsnd msync nanosleep open openat pause poll ppoll pread preadv preadv2 pselect
    pthread_clockjoin_np pthread_cond_clockwait pthread_cond_timedwait pthread_cond_wait
    pthread_join pthread_testcancel pthread_timedjoin_np pwrite pwritev pwritev2 read readv recv
    recvfrom recvmmsg recvmsg select sem_clockwait sem_timedwait sem_wait send sendmmsg sendmsg
    sendto sigpause sigsuspend sigtimedwait sigwait sigwaitinfo sleep splice system tcdrain tee
    usleep vmsplice wait wait3 wait4 waitid waitpid write writev
    dprintf fclose fdopen fflush fgetc fgets fopen fprintf fputc fputs fread freopen fscanf fwrite
    getc getline opendir pclose perror popen printf putc puts readdir scandir syslog vdprintf
    vfprintf vprintf
'''.split())

# What is allowed to the provider, with the one source each may be in, and why.
NOT_CANCELLED = 'within SIMHCA_NOT_CANCELLED'
OWN_THREAD = 'of a thread of the library, which nobody cancels'
ALLOWED = {
    'libsimhca.so.1': {
        'fclose': {'libsimhca/dma/process_map.c': NOT_CANCELLED,
                   'providers/simhca/shared_files.c': NOT_CANCELLED},
        'fdopen': {'libsimhca/dma/process_map.c': NOT_CANCELLED},
        'fgets': {'libsimhca/dma/process_map.c': NOT_CANCELLED,
                  'providers/simhca/shared_files.c': NOT_CANCELLED},
        'fopen': {'providers/simhca/shared_files.c': NOT_CANCELLED},
        'opendir': {'providers/simhca/shared_files.c': NOT_CANCELLED},
        'readdir': {'providers/simhca/shared_files.c': NOT_CANCELLED},
        'fprintf': {'providers/simhca/simhca.c': NOT_CANCELLED,
                    'providers/simhca/ibverbs-provider-check.h': 'opening is not cancelled'},
        'pthread_cond_clockwait': {'providers/simhca/acks.c': NOT_CANCELLED,
                                   'providers/simhca/cq.c': NOT_CANCELLED},
        'pthread_cond_wait': {'providers/simhca/acks.c': NOT_CANCELLED,
                              'providers/simhca/cq.c': NOT_CANCELLED},
        'pthread_join': {'providers/simhca/watcher.c': NOT_CANCELLED},
    },
    'libsimhca-cq.so': {
        'pthread_cond_clockwait': {'libsimhca-cq/workqueue.c': OWN_THREAD},
        'pthread_cond_wait': {'libsimhca-cq/users.c': NOT_CANCELLED,
                              'libsimhca-cq/workqueue.c': OWN_THREAD},
        'pthread_join': {'libsimhca-cq/poll_thread.c': NOT_CANCELLED,
                         'libsimhca-cq/workqueue.c': NOT_CANCELLED},
    },
    'libsimhca-preload.so': {
        'recv': {'preload/rdma_cm.c': 'rdma_get_cm_event() waits for an event',
                 'preload/umad.c': 'read() of a program waits for a MAD'},
    },
}
SOURCES = {
    'libsimhca.so.1': ('providers/simhca', 'kernel-abi', 'libsimhca/dma/bus_error.c', 'libsimhca/dma/process_map.c',
                     'libsimhca/message'),
    'libsimhca-cq.so': ('libsimhca-cq', 'providers/simhca/lock.c'),
    'libsimhca-preload.so': ('preload', 'kernel-abi'),
}
# What the compiler makes of fprintf().
OTHER_NAMES = {'fwrite': 'fprintf', 'fputc': 'fprintf', 'fputs': 'fprintf'}


def imported(library):
    """The cancellation points that it imports, without the marks of _FORTIFY_SOURCE and the like."""
    symbols = subprocess.run(['nm', '-D', '--undefined-only', os.path.join(BUILD, 'lib', library)],
                             check=True, text=True, capture_output=True).stdout
    names = {re.sub(r'^__|_chk$|_2$|64$', '', re.sub(r'_chk$', '', symbol))
             for symbol in re.findall(r' U (\w+)', symbols)}
    return {OTHER_NAMES.get(name, name) for name in names & POINTS}


def sources(library):
    for place in SOURCES[library]:
        path = os.path.join(REPO, place)
        if os.path.isfile(path):
            yield path
        for directory, _, names in os.walk(path):
            yield from (os.path.join(directory, name) for name in names if name.endswith(('.c', '.h')))


def calls(library, function):
    """The sources that call it."""
    found = set()
    for path in sources(library):
        with open(path, encoding='utf-8') as source:
            text = re.sub(r'/\*.*?\*/', '', source.read(), flags=re.S)
        if re.search(rf'(?<![\w.>"]){function}\(', text):
            found.add(os.path.relpath(path, REPO))
    return found


@pytest.mark.once
@pytest.mark.parametrize('library', ALLOWED)
def test_no_other_cancellation_point(library):
    allowed = ALLOWED[library]
    assert imported(library) <= set(allowed)
    for function, places in allowed.items():
        assert calls(library, function) <= set(places), function
        for place, why in places.items():
            with open(os.path.join(REPO, place), encoding='utf-8') as source:
                assert why != NOT_CANCELLED or 'SIMHCA_NOT_CANCELLED;' in source.read(), place
