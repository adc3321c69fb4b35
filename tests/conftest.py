"""For all tests."""

import asyncio


def pytest_configure() -> None:
    # Before the first async test pytest-asyncio asks for the current loop. If there never was one,
    # Python 3.11 makes one, which nobody closes, and warnings are errors.
    asyncio.set_event_loop(None)
