"""Modules preloaded by the fork server and shared with its forks."""

import gc

import loadgen.load_commands
import loadgen.server  # noqa: F401
from kubedsm_lab.emulator.processes import forked  # noqa: F401

# A collection would write to every object, and so copy each page.
gc.freeze()
