"""One browser for all tests of the page."""

import pytest_asyncio

from support.browser import MISSING, chromium


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser():
    if MISSING:
        yield None
        return
    async with chromium() as started:
        yield started
