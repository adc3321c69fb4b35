"""The picture of the README: the page of a demo, as a browser shows it while pods are moved.

    pip install -c constraints.txt -e '.[browser]' && python docs/picture.py  # writes docs/page.png

It takes Debian's chromium, and half a minute.
"""

import asyncio
import re
import shutil
import sys
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from pathlib import Path

from playwright.async_api import Page, async_playwright

PICTURE = Path(__file__).parent / "page.png"
SIZE = {"width": 1280, "height": 800}
#: seconds of the demo after which there is something to see of the past, too
PAST = 25
DEMO = (sys.executable, "-m", "kubedsm", "demo", "--page", "--no-open")


async def main() -> None:
    demo = await asyncio.create_subprocess_exec(*DEMO, stdout=PIPE)
    try:
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox"]
            )
            page = await browser.new_page(viewport=SIZE, color_scheme="light")
            await page.goto(await url_of(demo))
            await asyncio.sleep(PAST)
            PICTURE.write_bytes(await mid_move(page))
            await browser.close()
    finally:
        with suppress(ProcessLookupError):
            demo.terminate()
        await demo.wait()


async def url_of(demo: Process) -> str:
    """Where its page is, as it says."""
    if demo.stdout is None:
        raise RuntimeError("the demo's output is not piped")
    async for line in demo.stdout:
        if found := re.search(r"The page that shows it is (\S+)", line.decode()):
            return found[1]
    raise SystemExit("the demo ended without a page")


async def mid_move(page: Page) -> bytes:
    """The page while a pod is moved, as it still was when the picture was taken."""
    moving = page.locator(".arc.moving").first
    while True:
        await moving.wait_for(state="attached", timeout=60_000)
        picture = await page.screenshot()
        if await moving.count():
            return picture


if __name__ == "__main__":
    asyncio.run(main())
