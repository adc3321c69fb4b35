"""Debian's chromium, controlled by playwright.

On leaving a page, tests check that it requested nothing from other hosts, violated no content
security policy, and raised no script error.
"""

import os
import shutil
from contextlib import asynccontextmanager
from importlib.util import find_spec

import attrs
import pytest
from yarl import URL

PROGRAM = shutil.which("chromium") or ""
MISSING = [
    *([] if PROGRAM else ["chromium (Debian's)"]),
    *(name for name in ("playwright", "axe_playwright_python") if find_spec(name) is None),
]
#: what makes a module's tests such as drive a browser, all in one event loop with it
in_browser = [
    pytest.mark.browser,
    pytest.mark.http,
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
    pytest.mark.asyncio(loop_scope="session"),
]
#: seconds that the page may take until what is expected is on it
PATIENCE = 20.0
#: where screenshots are kept, if anywhere
PICTURES = os.environ.get("KUBEDSM_SCREENSHOTS", "")


def expect(actual):
    from playwright.async_api import expect  # noqa: PLC0415 - as below

    return expect(actual)


@asynccontextmanager
async def chromium():
    """Run a browser; open pages by `Browser.page`."""
    # Takes a third of a second, in each worker that collects these tests.
    from playwright.async_api import async_playwright, expect  # noqa: PLC0415

    expect.set_options(timeout=1000 * PATIENCE)
    async with async_playwright() as playwright:
        # Nobody else's content is shown, and in a container there is no sandbox to be had.
        started = await playwright.chromium.launch(
            executable_path=PROGRAM, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        async with started:
            yield Browser(started)


@attrs.frozen
class Browser:
    browser: object

    @asynccontextmanager
    async def page(
        self, url, width=1440, height=900, *, dark=False, failing=(), toured=True, **context
    ):
        """Open the page at a URL; `failing` are parts of console messages that are allowed.

        `toured`: the browser has shown the tour of the first visit.
        """
        async with await self.browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            **context,
        ) as own:
            own.set_default_timeout(1000 * PATIENCE)
            page = await own.new_page()
            if toured:
                await page.add_init_script("localStorage.setItem('kubedsm-tour', 'done')")
            seen = Seen.of(page)
            await page.goto(url, wait_until="load")
            yield page
            elsewhere = [asked for asked in seen.requests if not _is_of(asked, url)]
            assert not elsewhere, elsewhere
            wrong = [said for said in seen.complaints if not any(p in said for p in failing)]
            assert not wrong, wrong


@attrs.define(slots=False)  # playwright notes on it what listens
class Seen:
    """Requests of a page, and error messages on its console."""

    requests: list[str] = attrs.field(factory=list)
    complaints: list[str] = attrs.field(factory=list)

    @classmethod
    def of(cls, page):
        seen = cls()
        page.on("request", lambda request: seen.requests.append(request.url))
        page.on("pageerror", lambda error: seen.complaints.append(str(error)))
        page.on("console", seen._said)
        return seen

    def _said(self, message):
        if message.type in {"error", "warning"}:
            self.complaints.append(f"{message.text} ({message.location['url']})")


def _is_of(asked, url):
    """Return whether a request goes to the page's own server, or to no server."""
    own, other = URL(url), URL(asked)
    return (
        other.scheme in {"data", "blob"}
        or other == own
        or (own.scheme != "file" and own.origin() == other.origin())
    )


async def keep(page, name):
    """Save a screenshot if KUBEDSM_SCREENSHOTS is set."""
    if PICTURES:
        # Without what is on its way from one place to another.
        await page.screenshot(path=f"{PICTURES}/{name}.png", animations="disabled")


async def violations(page):
    """Return the accessibility violations that axe-core finds, each with its element."""
    from axe_playwright_python.async_playwright import Axe  # noqa: PLC0415 - as above

    found = await Axe().run(page)
    return [
        f"{each['id']}: {each['help']}: {node['target']}"
        for each in found.response["violations"]
        for node in each["nodes"]
    ]
