# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""This suite itself: it gets a device, and when that has ended, this is one failure, and not one for each further test."""
import subprocess
import sys
import xml.etree.ElementTree as xml

import pytest

from programs import helper, outside, private


@pytest.mark.once
def test_one_failure(tmp_path):
    """70 is what tests/suites/part.py knows it by; the report has the test that failed, and no other."""
    report = tmp_path / 'report.xml'
    done = private([sys.executable, '-m', 'pytest', '-q', '-p', 'no:cacheprovider', f'--junitxml={report}',
                    helper('ends_its_device.py')])
    assert done.returncode == 70 and 'the device has ended: no further test is run' in done.stdout, done.stdout
    case, = xml.parse(report).getroot().iter('testcase')
    assert case.get('name') == 'test_ends_it' and case.find('failure') is not None


@pytest.mark.once
@pytest.mark.parametrize('options, layer', [([], 'ethernet'), (['--device=--link-layer ib'], 'ib')], ids=['', 'ib'])
def test_gets_a_device(options, layer):
    """pytest alone begins anew below `simhca run`."""
    done = subprocess.run([sys.executable, '-m', 'pytest', '-q', '-p', 'no:cacheprovider', *options,
                           helper('has_layer.py')], env={**outside(), 'LAYER': layer}, text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0 and '1 passed' in done.stdout, done.stdout + done.stderr
