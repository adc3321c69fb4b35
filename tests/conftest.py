"""For all tests."""

import asyncio

import pytest
import structlog
from hypothesis import settings

from kubedsm.process.supervisor import Supervisor

settings.register_profile("long", max_examples=10_000)


def pytest_configure() -> None:
    # Before the first async test pytest-asyncio asks for the current loop. If there never was one,
    # Python 3.11 makes one, which nobody closes, and warnings are errors.
    asyncio.set_event_loop(None)


def pytest_itemcollected(item: pytest.Item) -> None:
    # looptime looks 42 times whether a socket has something before it moves the time on. Nothing
    # comes from outside into these loops, and the looks were a third of what their tests cost.
    if item.get_closest_marker("looptime"):
        item.add_marker(pytest.mark.looptime(noop_cycles=0))


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
