"""`kubectl kubedsm`: the same commands, as a plugin, with completion."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kubedsm.cli import main as cli
from support.command_line import kubedsm

#: where the entry points of this environment are
SCRIPTS = Path(sys.executable).parent


def entry_point(name, *arguments):
    return kubedsm(*arguments, entry_point=getattr(cli, name))


def test_it_calls_itself_what_its_user_typed():
    done = entry_point("plugin", "run", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage: kubectl kubedsm run [OPTIONS]")
    done = entry_point("plugin", "frobnicate")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("(see kubectl kubedsm --help)\n")
    assert "\nOperate:\n" in entry_point("plugin").stdout


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (["r"], ["rbac", "record", "replay", "run", ":4"]),
        (["rbac", "--without", "mig"], ["migrations", ":4"]),
        (["run", "--config", ""], [":0"]),
        (["run", "--no-such"], [":4"]),
    ],
)
def test_it_completes_for_kubectl(typed, offered):
    done = entry_point("complete_plugin", *typed)
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.partition("\t")[0] for line in done.stdout.splitlines()] == offered


def test_kubectl_finds_the_plugin_and_its_completion():
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("there is no kubectl on PATH")
    if not (SCRIPTS / "kubectl-kubedsm").exists():
        pytest.skip(f"kubedsm is not installed: no kubectl-kubedsm in {SCRIPTS}")
    path = {**os.environ, "PATH": f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}"}

    def said(*arguments):
        done = subprocess.run(
            [kubectl, *arguments], capture_output=True, text=True, timeout=60, check=True, env=path
        )
        return done.stdout

    assert said("kubedsm", "--help").startswith("Usage: kubectl kubedsm [OPTIONS]")
    assert said("__complete", "kubedsm", "ru").startswith("run\t")
