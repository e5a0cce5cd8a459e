# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Runs a command that the kernel refuses some system calls. Arguments: their names, with commas between; the command."""
import os
import sys

from programs import forbid_system_call

forbid_system_call(*sys.argv[1].split(','))
os.execvp(sys.argv[2], sys.argv[2:])
