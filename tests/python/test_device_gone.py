# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""This suite itself: when its device has ended, that is one failure, and not one for each further test."""
import sys
import xml.etree.ElementTree as xml

import pytest

from programs import helper, private


@pytest.mark.once
def test_one_failure(tmp_path):
    """70 is what scripts/test knows it by; the report has the test that failed, and no other."""
    report = tmp_path / 'report.xml'
    done = private([sys.executable, '-m', 'pytest', '-q', '-p', 'no:cacheprovider', f'--junitxml={report}',
                    helper('ends_its_device.py')])
    assert done.returncode == 70 and 'the device has ended: no further test is run' in done.stdout, done.stdout
    case, = xml.parse(report).getroot().iter('testcase')
    assert case.get('name') == 'test_ends_it' and case.find('failure') is not None
