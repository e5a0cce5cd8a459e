# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
Runs rdma-core's own tests, unmodified, and holds what they skip against the list in `skips`.

    simhca run --private --link-layer LAYER -- \
        /usr/bin/python3 run.py --tests DIR --link-layer LAYER --report XML
    simhca run --private --model efa -- \
        /usr/bin/python3 run.py --tests DIR --link-layer efa --only 'test_efa*' --report XML

DIR holds the tests' package, as DIR/tests, and its version, as DIR/version. The report is JUnit's.
SIMHCA_SEED repeats a run with the random numbers of an earlier one.
"""
import argparse
import ctypes
import faulthandler
import fnmatch
import gc
import multiprocessing
import os
import random
import re
import sys
import time
import traceback
import unittest
import xml.etree.ElementTree as tree

TIME_LIMIT = 120  # seconds for one test; the longest take a few
HUGE_PAGES = '/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages'


def read(path):
    try:
        with open(path, encoding='ascii') as file:
            return file.read()
    except OSError:
        return ''


def may_send_raw():
    """What the tests of raw packets ask for."""
    return os.geteuid() == 0


class Skips:
    """The file `skips`, as far as it speaks of a run of this release on this link layer, here."""

    def __init__(self, path, release, link_layer):
        conditions = {
            'any': True,
            'ethernet': link_layer == 'ethernet',
            'ib': link_layer == 'ib',
            'efa': link_layer == 'efa',
            'no-hugepages': int(read(HUGE_PAGES) or 0) == 0,
            'not-root': not may_send_raw(),
            'not-cpu-0': 0 not in os.sched_getaffinity(0),
        }
        self.lines = []
        self.unused = {}
        with open(path, encoding='utf-8') as file:
            for number, line in enumerate(file, 1):
                line = line.split('#')[0].strip()
                if not line:
                    continue
                words = line.split(None, 3)
                where = f'{os.path.basename(path)}:{number}'
                when = [re.fullmatch(r'(\d+)-(\d*)|(\S+)', one) for one in words[1].split(',')]
                if len(words) < 4 or words[2] not in ('skips', 'omit', 'runs') or \
                        not all(one and (not one[3] or one[3] in conditions) for one in when):
                    sys.exit(f'{where}: must be PATTERN WHEN skips|omit|runs REASON, with WHEN '
                             'of FIRST-[LAST], ' + ', '.join(conditions))
                pattern, _, how, reason = words
                if all(conditions[one[3]] if one[3] else
                       int(one[1]) <= release <= int(one[2] or release) for one in when):
                    self.lines.append((pattern, how, reason, where))
                    self.unused[where] = pattern

    def find(self, name):
        """(how, reason, where) of the first line for this test; how is 'runs' without one."""
        found = [line[1:] for line in self.lines if fnmatch.fnmatchcase(name, line[0])]
        for _, _, where in found:
            self.unused.pop(where, None)
        return found[0] if found else ('runs', '', '')


def short(test):
    """test_mr.MRTest.test_reg_mr: without the package's name."""
    return re.sub(r'^tests\.', '', test.id())


class Result(unittest.TestResult):
    """Watches over each test, tells what happened, and writes it down as JUnit does."""

    def __init__(self, skips):
        super().__init__()
        self.skips = skips
        self.suite = tree.Element('testsuite', name='upstream')
        self.counts = {'passed': 0, 'failed': 0, 'skipped': 0}
        self.outcome = None
        self.started = 0

    def startTest(self, test):
        super().startTest(test)
        self.outcome = None
        self.started = time.monotonic()
        # A test that hangs holds the interpreter's lock: the end of the run is all there is.
        faulthandler.dump_traceback_later(TIME_LIMIT, exit=True)
        print(short(test), end=' ... ', flush=True)

    def stopTest(self, test):
        faulthandler.cancel_dump_traceback_later()
        kind, text = self.outcome or ('passed', '')
        how, _, where = self.skips.find(short(test))
        if kind == 'skipped' and how == 'runs':
            kind, text = 'failed', f'skips, and `skips` has no line for it: {text}'
        elif kind == 'passed' and how == 'skips':
            kind, text = 'failed', f'passes, and {where} says that it skips: take that line away'
        self.record(short(test), kind, text, time.monotonic() - self.started)
        super().stopTest(test)

    def record(self, name, kind, text, seconds=0.0):
        case = tree.SubElement(self.suite, 'testcase', name=name, time=f'{seconds:.3f}')
        if kind != 'passed':
            element = 'failure' if kind == 'failed' else 'skipped'
            # XML has no place for most control characters.
            text = re.sub(r'[^\t\n\x20-\x7e\xa0-\ud7ff]', '?', text)
            tree.SubElement(case, element, message=text.splitlines()[-1] if text else '').text = text
        self.counts[kind] += 1
        print(kind, '' if kind == 'passed' else f': {text}', sep='', flush=True)

    def write(self, path):
        self.suite.set('tests', str(sum(self.counts.values())))
        self.suite.set('failures', str(self.counts['failed']))
        self.suite.set('errors', '0')
        self.suite.set('skipped', str(self.counts['skipped']))
        tree.ElementTree(self.suite).write(path)

    def _fail(self, error):
        self.outcome = ('failed', ''.join(traceback.format_exception(*error)))

    def addError(self, test, err):
        super().addError(test, err)
        self._fail(err)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._fail(err)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err:
            self._fail(err)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.outcome = self.outcome or ('skipped', reason)


def mend_pyverbs():
    """
    pyverbs 44 calls a method of its DmaBuf by a name that only C can see, so DmaBufMR works with
    no allocator at all. What the method would do is to remember the region, so that closing the
    DmaBuf first closes the region too.
    """
    try:
        from pyverbs.dmabuf import DmaBuf
    except ImportError:
        return
    if not hasattr(DmaBuf, 'add_ref'):
        # A class made in C cannot be given attributes but by this door.
        gc.get_referents(DmaBuf.__dict__)[0]['add_ref'] = lambda dmabuf, region: None
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(DmaBuf))


def flat(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from flat(test)
        else:
            yield test


def main():
    options = argparse.ArgumentParser()
    options.add_argument('--tests', required=True)
    options.add_argument('--link-layer', required=True, choices=('ethernet', 'ib', 'efa'))
    options.add_argument('--report', required=True)
    options.add_argument('--dev', help='the device that they run on, by default the first')
    options.add_argument('--only', default='*', help='a pattern of tests')
    options.add_argument('--but', action='append', default=[], help='a pattern of tests that are left out')
    options = options.parse_args()

    # As run_tests.py does: the tests take their options from this module.
    sys.path[:0] = [options.tests, os.path.join(options.tests, 'tests')]
    sys.argv[1:] = ['--dev', options.dev] if options.dev else []
    import args_parser
    args_parser.parser.parse_args()
    import tests
    mend_pyverbs()
    # What the tests hand to their processes cannot be pickled, as Python 3.14 would by default.
    multiprocessing.set_start_method('fork')

    seed = int(os.environ.get('SIMHCA_SEED') or time.time_ns() % 1000000)
    print(f'SIMHCA_SEED={seed}')
    release = int(read(os.path.join(options.tests, 'version')).split('.')[0])
    skips = Skips(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'skips'), release,
                  options.link_layer)
    result = Result(skips)
    for test in flat(unittest.defaultTestLoader.loadTestsFromModule(tests)):
        name = short(test)
        if not fnmatch.fnmatchcase(name, options.only) or any(fnmatch.fnmatchcase(name, one) for one in options.but):
            continue
        random.seed(f'{seed} {name}')
        how, reason, _ = skips.find(name)
        if how == 'omit':
            print(name, end=' ... ')
            result.record(name, 'skipped', reason)
        else:
            test(result)
    if options.only == '*' and not options.but:
        for where, pattern in skips.unused.items():
            print(where, end=' ... ')
            result.record(where, 'failed', f'stale: there is no test {pattern}')
    result.write(options.report)
    print(', '.join(f'{count} {kind}' for kind, count in result.counts.items()))
    return 1 if result.counts['failed'] else 0


if __name__ == '__main__':
    sys.exit(main())
