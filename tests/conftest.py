"""For all tests."""

import asyncio

import pytest
import structlog


def pytest_configure() -> None:
    # Before the first async test pytest-asyncio asks for the current loop. If there never was one,
    # Python 3.11 makes one, which nobody closes, and warnings are errors.
    asyncio.set_event_loop(None)


@pytest.fixture(autouse=True)
def logs_as_they_come() -> None:
    """Whatever a command of another test set up."""
    structlog.reset_defaults()
