"""The real kubectl, run against an emulated cluster."""

import os
import shutil
import subprocess
from pathlib import Path

import attrs
import pytest

KUBECTL = shutil.which("kubectl")
needs_kubectl = pytest.mark.skipif(KUBECTL is None, reason="there is no kubectl on PATH")


@attrs.frozen
class Kubectl:
    kubeconfig: Path
    #: holds its cache of what a server at an address can do
    home: Path

    def __call__(self, *arguments, code=0):
        """Run kubectl and return its output (stderr if stdout is empty); check the exit code."""
        done = subprocess.run(
            [KUBECTL, "--kubeconfig", str(self.kubeconfig), *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
            env={"PATH": os.environ["PATH"], "HOME": str(self.home)},
        )
        assert code in (None, done.returncode), done.stderr
        return (done.stdout or done.stderr).strip()
