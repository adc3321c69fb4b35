"""Seeded bugs, and whether the tests notice them: `python tests/mutants`.

A mutant is a patch: what its bug is, in words; after `Noticed by:` the tests most likely to fail;
then the change, as `git diff -U1` prints it. Where it belongs is found by its text, which must be
there once: the numbers of lines are not looked at, so it lasts until the lines that it is about
change. Then make the bug anew, print it, and take it back.

Each is put into a copy of the tree, where its own tests run. What survives is either a test that is
missing or code that does nothing.

`--chaos` judges chaos runs instead of tests: which seeded bugs raise an alarm by themselves.

`--drawn N` draws N mutants per package from those that mutmut makes, and prints survivors as
diffs and the share that tests notice.
"""

import ast
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import cache_from_source
from pathlib import Path
from queue import SimpleQueue
from subprocess import CompletedProcess
from types import ModuleType

import attrs
import click

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
NOTICED_BY = "Noticed by:"
#: of all, so many must be noticed
SHARE = 0.95
#: seconds of CPU for tests that a mutant may make last for ever: its own, and all, in a process
PATIENCE, PATIENCE_FOR_ALL = 60, 900
#: as many times as long may they wait for what never comes, or for the CPU
WAITING = 10
#: what pytest ends with if a test failed, and if all passed
FAILED, PASSED = 1, 0


class StaleError(Exception):
    """A mutant that is none of the code as it is; one line says which, and why."""


@attrs.frozen
class Mutant:
    #: the room it is about, and its own
    name: str
    bug: str
    #: paths of tests, or ids
    tests: tuple[str, ...]
    path: Path
    #: what is there, and what the bug makes of it: whole lines
    changes: tuple[tuple[str, str], ...]

    @classmethod
    def read(cls, file: Path) -> "Mutant":
        """Raises StaleError."""
        name = f"{file.parent.name}/{file.stem}"
        words, _, diff = file.read_text(encoding="utf-8").partition("\n--- a/")
        bug, _, tests = words.partition(NOTICED_BY)
        path, *hunks = re.split(r"\n(?:\+\+\+ .*\n)?@@ .*", diff)
        if not (bug and tests and hunks):
            raise StaleError(f"{name}: not a bug in words, `{NOTICED_BY}`, and a diff")
        changes = tuple((_side("-", hunk), _side("+", hunk)) for hunk in hunks)
        return cls(name, " ".join(bug.split()), tuple(tests.split()), ROOT / path, changes)

    def applied(self, text: str) -> str:
        """The text of its file with the bug. Raises StaleError."""
        where = self.path.relative_to(ROOT)
        text = f"\n{text}"
        for old, new in self.changes:
            if (found := text.count(old)) != 1:
                line = next(filter(None, old.splitlines()), "").strip()
                raise StaleError(f"{self.name}: {where} has its lines {found} times: {line}")
            text = text.replace(old, new)
        return text.removeprefix("\n")

    def check(self) -> None:
        """Raise StaleError unless it applies, to code, and its tests are there."""
        try:
            ast.parse(self.applied(self.path.read_text(encoding="utf-8")))
        except (OSError, SyntaxError) as error:
            raise StaleError(f"{self.name}: {error}") from None
        for test in self.tests:
            path, _, function = test.partition("::")
            file = ROOT / path
            if not file.exists() or (function and f"def {function}(" not in file.read_text()):
                raise StaleError(f"{self.name}: there is no {test}")


def _side(sign: str, hunk: str) -> str:
    kept = [line[1:] for line in hunk.splitlines() if line[:1] in {"", " ", sign}]
    return "\n".join((*kept, ""))


@attrs.frozen
class Outcome:
    mutant: Mutant
    #: the test that failed; empty if none did
    killer: str = ""
    #: why nothing is known of it
    error: str = ""

    def __str__(self) -> str:
        if self.error:
            return f"unknown   {self.error}"
        return f"killed    {self.killer}" if self.killer else f"SURVIVED  {self.mutant.bug}"


def _copied(to: Path) -> Path:
    hidden = shutil.ignore_patterns(".*", "__pycache__")
    return Path(shutil.copytree(ROOT, to, ignore=hidden))


def _run_python(copy: Path, patience: int, *arguments: str) -> tuple[str, CompletedProcess[str]]:
    """Run Python in a copy with limited CPU; the reason is empty if it came to its end."""
    limited = ("prlimit", f"--cpu={patience}", sys.executable)
    try:
        done = subprocess.run(
            (*limited, *arguments),
            cwd=copy,
            env={**os.environ, "PYTHONPATH": f"{copy}:{copy / 'lab'}", "PYTHONHASHSEED": "0"},
            capture_output=True,
            text=True,
            timeout=WAITING * patience,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        return f"no end after {late.timeout:.0f} s", CompletedProcess(arguments, -1)
    return f"no end after {patience} s of CPU" if done.returncode < 0 else "", done


def _last_line(done: CompletedProcess[str]) -> str:
    said = (done.stdout + done.stderr).strip().splitlines()
    return said[-1] if said else f"ended with {done.returncode}"


def _tested(copy: Path, tests: Sequence[str], patience: int) -> tuple[str, str]:
    """The first test that failed there; or why it is not known whether one would."""
    quietly = ("-m", "pytest", "-x", "-q", "-p", "no:cacheprovider")
    endless, done = _run_python(copy, patience, *quietly, *tests)
    if endless:
        return endless, ""
    if done.returncode in {FAILED, PASSED}:
        found = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
        return (found[1] if found else "a test" if done.returncode else ""), ""
    return "", _last_line(done)


#: first test that fails in a copy, or alarm, or why none is known
Noticing = Callable[[Mutant, Path], tuple[str, str]]


def _judged(mutant: Mutant, copy: Path, notice: Noticing) -> Outcome:
    file = copy / mutant.path.relative_to(ROOT)
    healthy = file.read_text(encoding="utf-8")
    # A bug of the same length within a second is not told from what was there by its time.
    compiled = Path(cache_from_source(str(file)))
    try:
        file.write_text(mutant.applied(healthy), encoding="utf-8")
        compiled.unlink(missing_ok=True)
        killer, error = notice(mutant, copy)
    finally:
        file.write_text(healthy, encoding="utf-8")
        compiled.unlink(missing_ok=True)
    return Outcome(mutant, killer, error)


def by_own_tests(mutant: Mutant, copy: Path) -> tuple[str, str]:
    return _tested(copy, mutant.tests, PATIENCE)


def by_chaos(mutant: Mutant, copy: Path) -> tuple[str, str]:
    endless, done = _run_python(copy, PATIENCE, *_import_gate().list_arguments(mutant.name))
    if endless:
        return endless, ""
    if done.returncode:
        return "", _last_line(done)
    return done.stdout.partition("\n")[0], ""


def _import_gate() -> ModuleType:
    sys.path.insert(0, str(HERE.parent))
    from support import chaos_gate  # noqa: PLC0415 - tests of mutants need none

    return chaos_gate


def _outcomes(mutants: Sequence[Mutant], jobs: int, notice: Noticing) -> Iterator[Outcome]:
    """Of each, as it becomes known; of none if their tests fail without them."""
    with tempfile.TemporaryDirectory() as directory, ThreadPoolExecutor(jobs) as pool:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(jobs):
            copies.put(_copied(Path(directory, str(number))))

        def judged(mutant: Mutant) -> Outcome:
            copy = copies.get()
            try:
                return _judged(mutant, copy, notice)
            finally:
                copies.put(copy)

        everything = sorted({test for mutant in mutants for test in mutant.tests})
        copy = copies.get()
        if notice is not by_chaos:
            killer, error = _tested(copy, everything, PATIENCE_FOR_ALL)
            if killer or error:
                raise click.ClickException(f"without any mutant: {killer or error}")
        copies.put(copy)
        yield from pool.map(judged, mutants)


def _read(only: Sequence[str]) -> list[Mutant]:
    """Those, by their names or the beginnings of these; all by default. Raises StaleError."""
    found = [Mutant.read(file) for file in sorted(HERE.glob("*/*.patch"))]
    for mutant in found:
        mutant.check()
    return [m for m in found if not only or m.name.startswith(tuple(only))]


def print_score(packages: Sequence[str], number: int, seed: int) -> bool:
    """Judge drawn mutants. Raises click.ClickException without mutmut."""
    sys.path.insert(0, str(HERE.parent))
    try:
        from support import drawn_mutants  # noqa: PLC0415 - seeded bugs need no mutmut
    except ModuleNotFoundError as error:
        remedy = "pip install -c constraints.txt -e '.[dev]'"
        raise click.ClickException(f"{error.name} is missing: {remedy}") from None
    return drawn_mutants.print_score(packages, number, seed)


@click.command(help=__doc__)
@click.option("--only", multiple=True, metavar="NAME", help="The beginning of a mutant's name.")
@click.option("--jobs", type=click.IntRange(min=1), default=os.cpu_count() or 1, show_default=True)
@click.option("--chaos", is_flag=True, help="Run drawn faults instead of tests.")
@click.option("--check", is_flag=True, help="Run nothing: only see whether all of them apply.")
@click.option("--drawn", type=click.IntRange(min=1), metavar="N", help="Mutants per package.")
@click.option("--seed", default=1, show_default=True, help="Seed of --drawn.")
@click.option("--package", "packages", multiple=True, help="Of --drawn, all by default.")
def main(
    only: tuple[str, ...],
    jobs: int,
    chaos: bool,
    check: bool,
    drawn: int | None,
    seed: int,
    packages: tuple[str, ...],
) -> None:
    if drawn is not None:
        sys.exit(not print_score(packages, drawn, seed))
    try:
        mutants = _read(only)
    except StaleError as error:
        raise click.ClickException(str(error)) from None
    if check:
        click.echo(f"{len(mutants)} mutants apply")
        return
    notice = by_chaos if chaos else by_own_tests
    if chaos:
        mutants = [mutant for mutant in mutants if mutant.name in _import_gate().BUGS]
    found: list[Outcome] = []
    for outcome in _outcomes(mutants, jobs, notice):
        found.append(outcome)
        click.echo(f"{outcome.mutant.name:42} {outcome}")
    killed = sum(bool(outcome.killer) for outcome in found)
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = usage.ru_utime + usage.ru_stime
    click.echo(f"{killed} of {len(found)} killed, in {seconds:.0f} s of CPU")
    if chaos:
        missed = _import_gate().NOTICED.keys() & (o.mutant.name for o in found if not o.killer)
        sys.exit(f"no longer noticed: {', '.join(sorted(missed))}" if missed else 0)
    sys.exit(killed < SHARE * len(found))


if __name__ == "__main__":
    main()
