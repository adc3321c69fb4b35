"""Pinned versions: one per package, everywhere, within the bounds of pyproject.toml."""

import importlib
import re
import tomllib
from importlib.metadata import files
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
BUILD = PROJECT["build-system"]["requires"]
DEPENDENCIES = PROJECT["project"]["dependencies"]
EXTRAS = PROJECT["project"]["optional-dependencies"]
LAB = tomllib.loads((ROOT / "lab" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
#: what the lab needs next to the scheduler
OF_LAB = [each for each in LAB["dependencies"] if not each.startswith("kubedsm")]
ALL = [*BUILD, *DEPENDENCIES, *OF_LAB, *(each for extra in EXTRAS.values() for each in extra)]
#: pages and scripts that install this project from its folder
INSTALLS = [
    *("README.md", "k3s-lab/README.md", "k3s-lab/lib/playing.sh", "docs/how-to/install.md"),
    *("docs/picture.py", ".ci/run"),
]


def locked(name):
    """Each requirement with its version, and how many files of it may be installed."""
    text = (ROOT / name).read_text(encoding="utf-8").replace("\\\n", " ")
    for line in text.splitlines():
        if line and not line.lstrip().startswith("#"):
            requirement, *hashes = re.split(r"\s+--hash=sha256:", line.strip())
            yield Requirement(requirement), hashes


def versions(name):
    """Return the pinned versions of each package in a file, with their markers."""
    found = {}
    for requirement, _ in locked(name):
        [pin] = requirement.specifier
        assert pin.operator == "=="
        by_marker = found.setdefault(canonicalize_name(requirement.name), {})
        by_marker[str(requirement.marker)] = pin.version
    return found


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("constraints.txt", ALL),
        ("requirements.lock", DEPENDENCIES),
        ("requirements-build.lock", BUILD),
    ],
)
def test_pinned_versions_are_within_the_bounds_of_the_project(name, wanted):
    pinned = versions(name)
    for requirement in map(Requirement, wanted):
        for version in pinned[canonicalize_name(requirement.name)].values():
            assert requirement.specifier.contains(version), requirement


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-build.lock"])
def test_a_lock_has_hashes_and_the_versions_of_the_constraints(lock):
    assert all(hashes for _, hashes in locked(lock))
    pinned = versions("constraints.txt")
    for name, by_marker in versions(lock).items():
        assert set(by_marker.values()) <= set(pinned[name].values()), name


def test_native_dependencies_have_upper_bounds():
    for requirement in map(Requirement, [*DEPENDENCIES, *OF_LAB, *EXTRAS["exact"]]):
        if requirement.marker and not requirement.marker.evaluate():
            continue
        native = any(file.suffix == ".so" for file in files(requirement.name) or ())
        bounds = {each.operator for each in requirement.specifier}
        assert not native or bounds & {"<", "<=", "==", "~="}, requirement


@pytest.mark.parametrize("path", INSTALLS)
def test_each_installation_from_the_folder_is_constrained(path):
    text = (ROOT / path).read_text(encoding="utf-8").replace("\\\n", " ")
    found = re.findall(r"pip install( .*?)(?=[`&\n#]|$)", text)
    ours = [arguments for arguments in found if re.search(r" '?\.(\[| |'|$)", arguments)]
    assert ours
    assert all(" -c constraints.txt " in arguments for arguments in ours)


def test_both_distributions_have_one_version():
    found = {importlib.import_module(name).__version__ for name in ("kubedsm", "kubedsm_lab")}
    assert found == {LAB["version"]}
    assert f"kubedsm=={LAB['version']}" in LAB["dependencies"]
