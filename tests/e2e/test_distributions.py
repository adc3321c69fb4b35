"""Installed distributions: kubedsm alone is a scheduler, and kubedsm-lab adds commands to it."""

import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest

from kubedsm.cli import main as cli
from kubedsm.cli.main import LAB_COMMANDS, MODULES
from support.command_line import kubedsm

pytestmark = pytest.mark.http

ROOT = Path(__file__).parents[2]
LAB_PACKAGES = {"emulator", "replay", "chaos", "bench", "demo", "comparison", "kubedsm_lab"}
OWN = ("kubedsm", "loadgen", "plans", "_kubedsm", "__editable__")


@pytest.fixture(scope="module")
def backend(tmp_path_factory):
    """Folder with the build backend of both distributions."""
    folder = tmp_path_factory.mktemp("backend")
    required = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    options = ("--quiet", "--no-compile", "--target", str(folder), *required)
    done = subprocess.run([sys.executable, "-m", "pip", "install", *options], check=False)
    if done.returncode:
        pytest.skip("hatchling, the build backend, cannot be installed here")
    return folder


def installed(project, backend, folder):
    """Build the wheel of a project and unpack it: nothing that it depends on, and no scripts."""
    build = f"from hatchling.build import build_wheel; build_wheel({str(folder)!r})"
    environment = {**os.environ, "PYTHONPATH": str(backend)}
    subprocess.run([sys.executable, "-c", build], check=True, cwd=project, env=environment)
    [wheel] = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture(scope="module")
def dependencies(tmp_path_factory):
    """A folder with every library of this environment, and without KubeDSM's own packages."""
    folder = tmp_path_factory.mktemp("dependencies")
    for name in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        for path in Path(name).iterdir():
            if not path.name.startswith(OWN) and path.suffix != ".pth":
                (folder / path.name).symlink_to(path)
    return folder


@pytest.fixture(scope="module")
def scheduler(backend, tmp_path_factory):
    return installed(ROOT, backend, tmp_path_factory.mktemp("scheduler"))


@pytest.fixture(scope="module")
def lab(backend, tmp_path_factory):
    return installed(ROOT / "lab", backend, tmp_path_factory.mktemp("lab"))


def run(*arguments, folders):
    """Run `kubedsm` with the folders as the only ones that have libraries."""
    path = os.pathsep.join(map(str, folders))
    return subprocess.run(
        [sys.executable, "-S", "-m", "kubedsm", *arguments],
        check=False,
        capture_output=True,
        text=True,
        cwd=folders[0],
        env={**os.environ, "PYTHONPATH": path},
    )


def listed(*folders):
    done = run("--help", folders=folders)
    assert (done.returncode, done.stderr) == (0, "")
    return sorted(re.findall(r"^  ([a-z][a-z-]*)  +[A-Z]", done.stdout, re.MULTILINE))


@pytest.mark.network
def test_the_scheduler_has_no_module_of_the_lab(scheduler):
    packages = {path.parent.name for path in scheduler.glob("*/__init__.py")}
    assert packages == {"kubedsm", "loadgen", "plans"}
    modules = [path.relative_to(scheduler).with_suffix("") for path in scheduler.rglob("*.py")]
    assert len(modules) > 100
    assert [module for module in modules if LAB_PACKAGES & set(module.parts)] == []


@pytest.mark.network
def test_without_the_lab_its_commands_name_its_distribution(scheduler, dependencies):
    done = run("demo", folders=(scheduler, dependencies))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "kubedsm: error: `kubedsm demo` is in the distribution kubedsm-lab, which is not"
        " installed: from a checkout, pip install ./lab\n"
    )


@pytest.mark.network
def test_the_help_lists_commands_of_the_lab_once_it_is_installed(scheduler, lab, dependencies):
    assert listed(scheduler, dependencies) == sorted(MODULES)
    assert listed(scheduler, lab, dependencies) == sorted([*MODULES, *LAB_COMMANDS])


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
