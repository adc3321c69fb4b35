"""List of modules that the fork server imports in advance, so forked pod processes share their
memory.
"""

import gc

import loadgen.load_commands
import loadgen.server  # noqa: F401
from kubedsm_lab.emulator.processes import forked  # noqa: F401

# A collection would write to every object, and so copy each page.
gc.freeze()
