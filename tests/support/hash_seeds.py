"""Output of a program under different hash seeds."""

import os
import subprocess
import sys


def printed_by_hash_seeds(program):
    """Return the distinct outputs of a Python program under two hash seeds."""
    return {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
