"""Mutants drawn at random from those that mutmut makes of a package, judged by its tests.

mutmut names each small change of a function: another operator, number, argument, branch. One
process collects the package's tests. A first child runs all of them under coverage; then each
mutant has a child, which gives the living function the mutated code and runs the tests that
execute the changed statement, quickest first, until one fails. So a mutant costs the tests that it
needs, and neither the start of Python nor a copy of the tree.
"""

import ast
import difflib
import gc
import inspect
import itertools
import math
import multiprocessing
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FunctionType

import attrs
import click
import coverage
import libcst
import pytest
from mutmut.mutation.file_mutation import create_mutations

ROOT = Path(__file__).parents[2]
#: source of each package that the tool judges, and its tests
PACKAGES = {
    "optimizer": ("kubedsm/optimizer", ["tests/optimizer"]),
    "plugins": (
        "kubedsm/plugins",
        [
            "tests/plugins",
            "tests/optimizer/placing/test_open_volumes.py",
            "tests/optimizer/placing/test_preferences.py",
            "tests/scheduling/test_queueing_hints.py",
        ],
    ),
    "objective": ("kubedsm/objective", ["tests/objective"]),
    "rebalancing": ("kubedsm/rebalancing", ["tests/rebalancing"]),
    "execution": ("kubedsm/execution", ["tests/execution", "tests/cli/test_removal.py"]),
    "plans": ("plans", ["tests/plans"]),
}
#: seconds of CPU of the tests of one mutant
MOST = 60
#: limit for a mutant: a multiple of the CPU of its tests, and some seconds
SLOWER, PATIENCE = 4, 20
#: wall-clock seconds per second of CPU, on a busy machine
WAITING = 10
#: of all, so many must be noticed
SHARE = 0.85
#: two-sided 95 %
Z = 1.96

#: by position of a test: seconds of CPU, and executed lines by file
Measured = dict[int, tuple[float, dict[str, set[int]]]]


@attrs.frozen
class Drawn:
    """One mutant: a function of a file with one change."""

    path: str
    #: text of the file with the change
    text: str
    #: qualified name and first line of the mutated function
    function: str
    line: int
    #: lines of the changed statement
    changed: range
    diff: str


@attrs.define
class Judge:
    """Plugin of pytest: instead of running the tests once, judge each mutant by them."""

    mutants: list[Drawn]
    report: Callable[[str], None]

    def pytest_configure(self):
        # Imported after pytest, which rewrites the assertions of its plugins.
        from hypothesis import settings  # noqa: PLC0415

        settings.register_profile("mutants", deadline=None, derandomize=True, database=None)
        settings.load_profile("mutants")

    def pytest_runtestloop(self, session):
        measured = _child(lambda: measure_tests(session, {m.path for m in self.mutants}), 3600)
        if not isinstance(measured, dict):
            raise pytest.UsageError(f"without any mutant: {measured}")
        for mutant in self.mutants:
            chosen = choose_tests(mutant, measured)
            patience = PATIENCE + SLOWER * math.ceil(sum(measured[at][0] for at in chosen))
            items = [session.items[at] for at in chosen]
            self.report(_child(partial(judge, session, mutant, items), patience))
        return True


def choose_tests(mutant, measured):
    """Return the tests that execute the changed statement, quickest first."""
    order = sorted(
        (seconds, at)
        for at, (seconds, lines) in measured.items()
        if not lines.get(mutant.path, set()).isdisjoint(mutant.changed)
    )
    so_far = itertools.accumulate(seconds for seconds, _ in order)
    return [at for (_, at), total in zip(order, so_far, strict=True) if total <= MOST]


def measure_tests(session, paths):
    """Return seconds of CPU and executed lines of each test; the first that fails, if one does."""
    tracer = coverage.Coverage(
        data_file=None, config_file=False, include=[str(ROOT / path) for path in paths]
    )
    seconds = []
    tracer.start()
    for at, item in enumerate(session.items):
        tracer.switch_context(str(at))
        before = time.process_time()
        if has_failed(session, [item], session.items[at + 1 : at + 2]):
            return item.nodeid
        seconds.append(time.process_time() - before)
    tracer.stop()
    lines = [{} for _ in seconds]
    for path in paths:
        for line, tests in tracer.get_data().contexts_by_lineno(str(ROOT / path)).items():
            for test in filter(None, tests):
                lines[int(test)].setdefault(path, set()).add(line)
    return dict(enumerate(zip(seconds, lines, strict=True)))


def judge(session, mutant, items):
    """Return the test that notices the mutant; empty if none does."""
    replace_code(mutant)
    return has_failed(session, items, [])


def has_failed(session, items, following):
    """Run tests, and return the first that fails; empty if none does."""
    failed = []

    class Note:
        def pytest_runtest_logreport(self, report):
            if report.failed:
                failed.append(report.nodeid)

    plugins = session.config.pluginmanager
    if plugins.has_plugin("terminalreporter"):
        plugins.unregister(name="terminalreporter")
    plugins.register(Note(), "note")
    for at, item in enumerate(items):
        after = items[at + 1 : at + 2] or following
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=after[0] if after else None)
        if failed:
            break
    plugins.unregister(name="note")
    return failed[0] if failed else ""


def replace_code(mutant):
    """Give each living function of that name and line the mutated code."""
    file = str(ROOT / mutant.path)
    code = find_code(compile(mutant.text, file, "exec"), mutant.function, mutant.line)
    for each in gc.get_objects():
        if isinstance(each, FunctionType) and each.__code__.co_filename == file:
            old = each.__code__
            if (old.co_qualname, old.co_firstlineno) == (mutant.function, mutant.line):
                each.__code__ = code


def find_code(code, name, line):
    """Return the code of a function within the code of its module. Raises LookupError."""
    stack = [code]
    while stack:
        code = stack.pop()
        if (code.co_qualname, code.co_firstlineno) == (name, line):
            return code
        stack.extend(each for each in code.co_consts if inspect.iscode(each))
    raise LookupError(name)


def _child(work, patience):
    """Return the value of `work`, done in a fork with limited CPU; its end in words otherwise."""
    here, there = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=_work, args=(work, there, patience))
    child.start()
    there.close()
    try:
        found = here.recv() if here.poll(WAITING * patience) else f"no end after {patience} s"
    except EOFError:
        child.join()
        found = f"no end after {patience} s of CPU"
        if child.exitcode != -signal.SIGXCPU:
            found = f"ended with {child.exitcode}"
    _end(child)
    return found


def _end(child):
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        child.kill()
    child.join()


def _work(work, there, patience):
    os.setpgrp()
    resource.setrlimit(resource.RLIMIT_CPU, (patience, patience + 1))
    there.send(work())


def draw_mutants(package, number, seed):
    """Draw mutants of the functions of a package; the same ones for the same seed and code."""
    made = []
    for file in sorted((ROOT / PACKAGES[package][0]).rglob("*.py")):
        path, text = str(file.relative_to(ROOT)), file.read_text(encoding="utf-8")
        module, mutations, *_ = create_mutations(path, text)
        made += [
            (path, text, module, each)
            for each in mutations
            if isinstance(each.contained_by_top_level_function, libcst.FunctionDef)
        ]
    random.Random(f"{package} {seed}").shuffle(made)
    found = []
    while made and len(found) < number:
        path, text, module, mutation = made.pop()
        function = mutation.contained_by_top_level_function
        changed = function.deep_replace(mutation.original_node, mutation.mutated_node)
        old, new = module.code_for_node(function), module.code_for_node(changed)
        if (drawn := describe_mutant(path, text, text.replace(old, new))) is not None:
            found.append(drawn)
    return found


def describe_mutant(path, before, after):
    """Return the mutant between two texts of a file; None if both mean the same."""
    tree = ast.parse(before)
    if ast.dump(tree) == ast.dump(ast.parse(after)):
        return None
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    line = next(
        at for at, (one, other) in enumerate(zip(old, new, strict=False), 1) if one != other
    )
    diff = "".join(difflib.unified_diff(old, new, path, path, n=1))
    names = []
    for node in ast.walk(tree):  # from the outermost inwards
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            start = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            if start <= line <= (node.end_lineno or start):
                names.append(node.name)
                if not isinstance(node, ast.ClassDef):
                    break
    inner = [each.lineno for each in ast.walk(node) if isinstance(each, ast.stmt)]
    statement = max(each for each in inner if each <= line)
    return Drawn(path, after, ".".join(names), start, range(statement, line + 1), diff)


def judge_mutants(mutants, tests):
    """Yield each mutant with the test that notices it; empty if none does.

    Raises click.ClickException if a test fails without any mutant.
    """
    here, there = multiprocessing.Pipe(duplex=False)
    with tempfile.TemporaryFile("w+", encoding="utf-8") as log:

        def run():
            here.close()
            os.dup2(log.fileno(), 1)
            options = ("-q", "-p", "no:cacheprovider")
            pytest.main([*options, *tests], plugins=[Judge(mutants, there.send)])

        process = multiprocessing.get_context("fork").Process(target=run)
        process.start()
        there.close()
        for mutant in mutants:
            try:
                yield mutant, here.recv()
            except EOFError:
                process.join()
                log.seek(0)
                raise click.ClickException(log.read()[-2000:]) from None
        process.join()


def describe_share(killed, judged):
    """Return a share in words, with the 95 % interval by Wilson's score."""
    share, weight = killed / judged, Z**2 / judged
    middle = (share + weight / 2) / (1 + weight)
    half = Z * math.sqrt(share * (1 - share) / judged + weight / (4 * judged)) / (1 + weight)
    interval = f"{max(0, middle - half):.0%} to {min(1, middle + half):.0%}"
    return f"{killed} of {judged} killed: {share:.1%} (95 % interval {interval})"


def print_score(packages, number, seed):
    """Judge drawn mutants of each package, print survivors and score; return if it is reached."""
    packages = packages or tuple(PACKAGES)
    for unknown in {*packages} - PACKAGES.keys():
        raise click.BadParameter(f"no package {unknown}, only {', '.join(PACKAGES)}")
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    killed, judged = Counter[str](), Counter[str]()
    for package in packages:
        mutants = draw_mutants(package, number, seed)
        for at, (mutant, killer) in enumerate(judge_mutants(mutants, PACKAGES[package][1]), 1):
            judged[package] += 1
            killed[package] += bool(killer)
            if not killer:
                click.echo(f"SURVIVED {at} in {mutant.function}\n{mutant.diff}")
        click.echo(f"{package:12} {describe_share(killed[package], judged[package])}")
    click.echo(f"{'all':12} {describe_share(killed.total(), judged.total())}")
    return killed.total() >= SHARE * judged.total()
