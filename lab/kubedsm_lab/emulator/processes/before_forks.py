"""Loaded once, by the process from which others are forked, for all of them to share."""

import gc

import loadgen.load_commands
import loadgen.server  # noqa: F401
from kubedsm_lab.emulator.processes import forked  # noqa: F401

# A collection would write to every object, and so make a copy of each page.
gc.freeze()
