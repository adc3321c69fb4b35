"""For all tests."""

import asyncio
import gc
import os
import secrets
from pathlib import Path

import pytest
import structlog
from hypothesis import settings

from kubedsm.process.supervisor import Supervisor
from support import drawing

# On a busy machine an example takes as long as it takes.
settings.register_profile("short", deadline=None)
settings.register_profile("long", deadline=None, max_examples=10_000)

TESTS = Path(__file__).parent
#: modules and folders with tests
COLLECTED = sorted(str(path) for path in TESTS.iterdir() if path.is_dir() or path.match("test_*"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--long",
        action="store_true",
        help="Play all drawn instances instead of a share, as many fresh ones, and the tests "
        "marked `long`.",
    )


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("long" if config.getoption("--long") else "short")
    if config.getoption("--long"):
        # Workers of xdist inherit the base of the fresh seeds.
        os.environ.setdefault(drawing.LONG, str(secrets.randbelow(10**6)))
    # Before the first async test pytest-asyncio asks for the current loop. If there never was one,
    # Python 3.11 makes one, which nobody closes, and warnings are errors.
    asyncio.set_event_loop(None)
    worker = getattr(config, "workerinput", None)
    if worker and [Path(each).resolve() for each in config.args] == [TESTS]:
        # Without bytecode of the tests, each worker compiles those with which it begins.
        begin = len(COLLECTED) * int(worker["workerid"][2:]) // worker["workercount"]
        config.args = COLLECTED[begin:] + COLLECTED[:begin]


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    # Hardly anything that is collected becomes garbage: the collector looks at it once, or never.
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_itemcollected(item: pytest.Item) -> None:
    # Virtual time is the rule. looptime looks 42 times whether a socket has something before it
    # moves the time on. Nothing comes from outside into these loops, and the looks were a third of
    # what their tests cost.
    if not (item.get_closest_marker("http") or item.get_closest_marker("browser")):
        item.add_marker(pytest.mark.looptime(noop_cycles=0))


def pytest_report_header() -> str | None:
    base = os.environ.get(drawing.LONG)
    return base and f"long run; the same fresh seeds again: {drawing.LONG}={base}"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    # Tests of processes wait for real time: a worker more keeps the CPU busy meanwhile.
    return (os.cpu_count() or 1) + 1


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # Workers have the same order of tests, wherever they began.
    items.sort(key=lambda item: item.path)
    if not config.getoption("--long"):
        # A given cluster gets all of its tests.
        given = config.getoption("--kubeconfig", None)
        later = [
            item
            for item in items
            if item.get_closest_marker("long")
            and not (given and item.get_closest_marker("any_cluster"))
        ]
        config.hook.pytest_deselected(items=later)
        items[:] = [item for item in items if item not in later]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item):
    report = yield
    seed = drawing.last_seed(item.nodeid) if report.when == "call" else None
    if report.failed and seed is not None:
        report.sections.append(("drawn instance", f"seed {seed}"))
        if drawing.LONG in os.environ:
            drawing.keep_counterexample(item.nodeid, seed)
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    # Each worker begins with modules of its own, whose fixtures it makes, and others help at the
    # end. Under `load` the tests of a module meet several workers.
    if getattr(config.option, "numprocesses", None) and config.option.dist == "no":
        config.option.dist = "worksteal"


@pytest.fixture(autouse=True)
def logs_as_they_come() -> None:
    """Whatever a command of another test set up."""
    structlog.reset_defaults()
    plain = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[structlog.processors.add_log_level, plain])


@pytest.fixture(autouse=True)
def caught(monkeypatch):
    """What supervisors caught: a test fails by it, unless it expects it and clears the list."""
    caught = []
    catch = Supervisor._log_caught

    def note(self, part, error, story):
        caught.append(error)
        catch(self, part, error, story)

    monkeypatch.setattr(Supervisor, "_log_caught", note)
    yield caught
    if caught:
        raise ExceptionGroup("caught by a supervisor", caught)
