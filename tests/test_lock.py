"""What the image is made of is locked, and is what the project asks for."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def locked(name):
    """Each requirement with its version, and how many files of it may be installed."""
    text = (ROOT / name).read_text(encoding="utf-8").replace("\\\n", " ")
    for line in text.splitlines():
        if line and not line.lstrip().startswith("#"):
            requirement, *hashes = re.split(r"\s+--hash=sha256:", line.strip())
            yield Requirement(requirement), hashes


@pytest.mark.parametrize(
    ("lock", "wanted"),
    [
        ("requirements.lock", PROJECT["project"]["dependencies"]),
        ("requirements-build.lock", PROJECT["build-system"]["requires"]),
    ],
)
def test_a_lock_has_what_is_asked_for(lock, wanted):
    found = dict(locked(lock))
    assert all(hashes for hashes in found.values())
    versions = {}
    for requirement in found:
        [pin] = requirement.specifier
        assert pin.operator == "=="
        versions.setdefault(canonicalize_name(requirement.name), []).append(pin.version)
    for requirement in map(Requirement, wanted):
        pinned = versions[canonicalize_name(requirement.name)]
        assert all(requirement.specifier.contains(version) for version in pinned)
