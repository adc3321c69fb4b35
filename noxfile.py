"""Sessions of a contributor; they run in the active environment (CONTRIBUTING.md)."""

import subprocess
from pathlib import Path

import nox

ROOT = Path(__file__).parent
nox.options.default_venv_backend = "none"
nox.options.sessions = ["lint", "types", "test-changed"]


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, format and import contracts."""
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("lint-imports")


@nox.session
def types(session: nox.Session) -> None:
    """Check types."""
    session.run("mypy")


@nox.session
def test(session: nox.Session) -> None:
    """Run the given tests, by default all but those of the browser."""
    session.run("pytest", "-n", "auto", "-m", "not browser", *session.posargs)


@nox.session(name="test-changed")
def test_changed(session: nox.Session) -> None:
    """Run the tests of the packages that differ from `main`."""
    folders = list_test_folders()
    if folders:
        session.run("pytest", "-n", "auto", "-m", "not browser", *folders, *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """Check the pages, and build the site without warnings."""
    session.run("python", "docs/generate.py", "--check")
    session.run("pytest", "-q", "tests/docs", "tests/test_first_hour.py")
    session.run("mkdocs", "build", "--strict")


@nox.session
def long(session: nox.Session) -> None:
    """Run all drawn instances and fresh ones, the browser, seeded bugs, faults, pages, models."""
    session.run("pytest", "-n", "auto", "-m", "not browser", "--long")
    session.run("pytest", "-m", "browser")
    session.run("python", "tests/mutants")
    session.run("kubedsm", "chaos", "--short")
    session.run("kubedsm", "chaos", "--explore")
    session.run("tests/first_hour", external=True)


def list_test_folders() -> list[str]:
    """Return the test files and folders that belong to the files changed since `main`."""
    command = ("git", "diff", "--name-only", "--merge-base", "main")
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found = set()
    for path in map(Path, output.splitlines()):
        parts = [part for part in path.parts if part not in {"lab", "kubedsm_lab", "kubedsm"}]
        folder = Path("tests", parts[0]) if parts else Path("tests")
        if path.parts[0] == "tests" and path.name.startswith("test_") and (ROOT / path).exists():
            found.add(str(path))
        elif path.parts[0] != "tests" and (ROOT / folder).is_dir():
            found.add(str(folder))
    return sorted(found)
