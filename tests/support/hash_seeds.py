"""What a program prints, whatever the seed of hashing."""

import os
import subprocess
import sys


def printed_by_hash_seeds(program):
    """The different outputs of the program under two seeds; it sees the tests' modules."""
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
