"""`kubedsm demo --page`, from start to end: at a terminal, and in the browser that it opens."""

from support.browser import expect, in_browser, keep
from support.terminal import Terminal

pytestmark = in_browser


def noting(tmp_path):
    """A browser that only notes what it is to show, and where it does."""
    program, noted = tmp_path / "browser", tmp_path / "url"
    program.write_text(f'#!/bin/sh\necho "$1" >{noted}\n')
    program.chmod(0o755)
    return program, noted


async def test_a_demo_shows_itself_from_start_to_end(browser, tmp_path):
    program, noted = noting(tmp_path)
    with Terminal("demo", "--page", "--cycles", "2", BROWSER=str(program)) as terminal:
        url = (await terminal.until(r"The page that shows it is (http://127\.0\.0\.1:\d+)"))[1]
        async with browser.page(url, failing=("net::ERR",)) as page:
            for node in ("edge-1", "edge-2", "edge-3", "cloud-1"):
                await expect(page.get_by_text(node).first).to_be_visible()
            await keep(page, "demo-begins")
            await expect(page.get_by_role("banner")).to_contain_text("ms")
            await terminal.until("until you press Enter")
            assert noted.read_text().strip() == url
            # The table was there all the time, and all is on the page still.
            assert "edge share" in terminal.screen
            await expect(page.get_by_text("default/a").first).to_be_visible()
            await keep(page, "demo-ends")
            terminal.type("\n")
            assert await terminal.ended() == 0
            await expect(page.get_by_text("not answered since")).to_be_visible()
