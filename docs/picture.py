"""Pictures of the documentation.

pip install -c constraints.txt -e '.[browser]' -e ./lab
python docs/picture.py            # docs/edge-share.svg, the README's; half a minute
python docs/picture.py page       # docs/page.png, the page of a demo; needs Debian's chromium
"""

import asyncio
import json
import re
import shutil
import subprocess
import sys
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from playwright.async_api import Page, async_playwright

from kubedsm_lab.replay.presets import PAPER_SCENARIOS

DOCS = Path(__file__).parent
SHARES, PICTURE = DOCS / "edge-share.svg", DOCS / "page.png"
REPLAY = (sys.executable, "-m", "kubedsm", "replay", *PAPER_SCENARIOS, "-o", "json")
POLICIES = {
    "kube-scheduler": ("before: kube-scheduler", "#b5b5b5"),
    "kubedsm": ("after: KubeDSM", "#2a78c8"),
}
SIZE = {"width": 1440, "height": 900}
#: seconds of the demo after which there is something to see of the past, too
PAST = 25
DEMO = (sys.executable, "-m", "kubedsm", "demo", "--page", "--no-open")


async def draw_page() -> None:
    demo = await asyncio.create_subprocess_exec(*DEMO, stdout=PIPE)
    try:
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox"]
            )
            page = await browser.new_page(viewport=SIZE, color_scheme="light")
            # Without the tour of the first visit.
            await page.add_init_script("localStorage.setItem('kubedsm-tour', 'done')")
            await page.goto(await url_of(demo))
            await asyncio.sleep(PAST)
            picture = await mid_move(page)
            if await page.get_by_text("The scheduler is slow").count():
                raise SystemExit("this machine is busy: the page says that the scheduler is slow")
            PICTURE.write_bytes(picture)
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


def draw_shares() -> None:
    """Draw the edge share in each scenario of the paper under both schedulers."""
    command = (*REPLAY, "--policies", ",".join(POLICIES), "--seeds", "3")
    means = json.loads(subprocess.run(command, stdout=PIPE, check=True).stdout)["means"]
    found: dict[str, list[dict[str, Any]]] = {
        policy: [
            next(m for m in means if (m["policy"], m["scenario"]) == (policy, scenario))
            for scenario in PAPER_SCENARIOS
        ]
        for policy in POLICIES
    }
    mpl.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "kubedsm", "font.size": 10}
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    axes = figure.add_subplot()
    axes.axhline(1, color="#333333", linestyle="--", linewidth=1, label="target: 100% at the edge")
    for offset, (policy, (label, color)) in zip((-0.2, 0.2), POLICIES.items(), strict=True):
        shares = [mean["edgeRatio"] for mean in found[policy]]
        axes.bar([x + offset for x in range(len(shares))], shares, 0.38, color=color, label=label)
    best = [mean["edgeRatio"] / mean["optimumShare"] for mean in found["kubedsm"]]
    axes.plot(range(len(best)), best, "k_", markersize=24, label="best possible placement")
    axes.set_xticks(range(len(best)), PAPER_SCENARIOS)
    axes.set_xlabel("scenario of the paper: demand in multiples of the edge, deviation")
    axes.set_ylabel("edge share")
    axes.set_ylim(0, 1.05)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=4, frameon=False, fontsize=9)
    figure.savefig(SHARES, metadata={"Date": None})


if __name__ == "__main__":
    if "page" in sys.argv:
        asyncio.run(draw_page())
    else:
        draw_shares()
