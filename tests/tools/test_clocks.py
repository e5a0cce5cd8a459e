# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
Who waits for a time waits by a clock that nobody sets: with CLOCK_REALTIME a wait of seconds ends at
once, or never, when the time of the day is set.
"""
import re
import subprocess

import pytest

from common import BUILD

# By the clock of the day, whatever the caller says; of each there is one that is told the clock.
BY_THE_DAY = {"pthread_cond_timedwait", "pthread_mutex_timedlock", "pthread_rwlock_timedrdlock",
              "pthread_rwlock_timedwrlock", "sem_timedwait", "mq_timedreceive",
              "mq_timedsend", "pthread_timedjoin_np"}


@pytest.mark.parametrize("binary", ["bin/simhcad", "bin/simhca", "lib/libsimhca.so.1", "lib/libsimhca-cq.so.1", "lib/libsimhca-preload.so"])
def test_no_wait_by_the_time_of_the_day(binary):
    symbols = subprocess.run(["nm", "-D", "--undefined-only", BUILD / binary], check=True, text=True,
                             stdout=subprocess.PIPE).stdout
    assert not set(re.findall(r" U (\w+)", symbols)) & BY_THE_DAY
