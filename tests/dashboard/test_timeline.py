"""The timeline of a recording: moments by key and pointer, and playing."""

from contextlib import asynccontextmanager

import pytest_asyncio
from aiohttp import web

from kubedsm.dashboard.server.access import HEADERS
from kubedsm.dashboard.server.app import read_static_files
from support.browser import expect, in_browser
from support.told_scene import served

pytestmark = in_browser

_KINDS = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
_PAGE = """<!doctype html><html lang="en"><title>Modules</title>
<link rel="icon" href="page/icon.svg">
<link rel="stylesheet" href="page/page.css"><link rel="stylesheet" href="page/timeline.css">"""


@asynccontextmanager
async def modules_served():
    """Serve an empty page that can import all modules from /page/; yield the URL."""
    contents = read_static_files()

    async def page(_):
        return web.Response(text=_PAGE, content_type="text/html", headers=HEADERS)

    async def file(request):
        name = request.match_info["name"]
        kind = _KINDS[name.rpartition(".")[2]]
        return web.Response(body=contents[name], content_type=kind, charset="utf-8")

    app = web.Application()
    app.add_routes([web.get("/", page), web.get("/page/{name:.+}", file)])
    async with served(app) as url:
        yield url


#: a pod that is on n1, n2 and n3 at 0, 10 and 20 s; what is told of it at 10 s; the end at 60 s
_FILM = """
  const { Recording } = await import("/page/recording.js");
  const { Timeline } = await import("/page/timeline.js");
  const { html, render } = await import("/page/vendor/htm-preact.js");
  const filmed = (begins) => {
    const recording = new Recording();
    const at = (seconds, rows) => recording.add({ type: seconds ? "changes" : "snapshot",
      version: 1 + seconds, at: begins + seconds, rows, run: "a" });
    for (let s = 0; s <= 60; s += 1) {
      const node = `n${1 + Math.min(2, Math.floor(s / 10))}`;
      at(s, {
        pods: { p: { workload: "w", node } }, status: { now: { headline: `${s}` } },
        ...(s % 10 || s > 20 ? {} : { workloads: { w: { edge: s / 10, total: 2, target: 1 } } }),
        ...(s === 10 ? { news: { 1: { at: begins + 10, kind: "batch", text: "decided on p",
          decision: 4 } } } : {}),
      });
    }
    return recording;
  };
  let state = { connection: "connected", moment: null, chosen: null };
  const recordings = [filmed(1000)];
  const set = (more) => {
    state = { ...state, ...more };
    const nodes = recordings.map((one) => one.at(state.moment ?? Infinity).pods.get("p").node);
    document.title = [...nodes, state.chosen?.kind ?? "", state.chosen?.key ?? ""].join(" ").trim();
    render(html`<${Timeline} ...${{ recordings, titles: ["one", "other"], state, set }} />`,
      document.body);
  };
  set({});
"""


@asynccontextmanager
async def timeline(browser):
    """Enter the page, whose title says where the pod is, and what is chosen."""
    async with modules_served() as url, browser.page(url) as page:
        await page.evaluate(f"async () => {{ {_FILM} }}")
        yield page, page.get_by_role("slider", name="Moment")


async def test_keys_lead_to_changes_to_moments_and_to_now(browser):
    async with timeline(browser) as (page, moment):
        for key, node, seconds in (
            ("ArrowLeft", "n3", 20),
            ("ArrowLeft", "n2", 10),
            ("ArrowRight", "n3", 20),
            ("PageDown", "n2", 10),
            ("Home", "n1", 0),
            ("PageUp", "n2", 10),
        ):
            await moment.press(key)
            await expect(page).to_have_title(node)
            await expect(moment).to_have_attribute("aria-valuenow", str(seconds))
        assert "decided on p" in await moment.get_attribute("aria-valuetext")
        await expect(page.get_by_text("The past")).to_be_visible()
        await page.keyboard.press("n")
        await expect(page.get_by_text("The past")).to_have_count(0)
        await expect(page).to_have_title("n3")


async def test_a_pointer_drags_the_moment_and_chooses_what_happened(browser):
    async with timeline(browser) as (page, moment):
        box = await moment.bounding_box()

        def x(seconds):
            return box["x"] + box["width"] * seconds / 60

        marks = await page.locator("[data-lane=decisions]").bounding_box()
        await page.mouse.move(x(10) + 2, marks["y"] + 5)
        await expect(page.get_by_text("decided on p")).to_be_visible()
        await page.mouse.down()
        await page.mouse.up()
        await expect(page).to_have_title("n2 decision 4")
        await page.mouse.move(x(30), box["y"] + 5)
        await page.mouse.down()
        await page.mouse.move(x(5), box["y"] + 5, steps=3)
        await expect(moment).to_have_attribute("aria-valuenow", "5")
        await page.mouse.move(x(70), box["y"] + 5, steps=3)
        await page.mouse.up()
        await expect(page.get_by_text("Now, ")).to_be_visible()


async def test_time_is_zoomed_around_the_pointer(browser):
    async with timeline(browser) as (page, moment):
        await moment.press("Home")
        first = page.locator(".clock text").first
        before = await first.text_content()
        box = await moment.bounding_box()
        await page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + 5)
        await page.mouse.wheel(0, -400)
        await expect(first).not_to_have_text(before)
        await page.get_by_role("button", name="All").click()
        await expect(first).to_have_text(before)


_WITH = """async ({ test }) => {
  const { Recording, after } = await import("/page/recording.js");
  const { scale, spans } = await import("/page/tracks.js");
  const { stretch, zoomed, including, lasting } = await import("/page/formats.js");
  const snapshot = (version, at, rows, run) => ({ type: "snapshot", version, at, rows, run });
  const changes = (version, at, rows) => ({ type: "changes", version, at, rows });
  const told = (recording, messages) => { for (const each of messages) recording.add(each, 100); };
  const pods = (tables) => Object.fromEntries(tables.pods);
  %s
}"""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def modules(browser):
    """Run JavaScript with the modules' functions, for what it returns."""
    async with modules_served() as url, browser.page(url) as page:
        yield lambda body: page.evaluate(_WITH % body, {"test": True})


async def test_any_moment_is_as_if_all_messages_were_taken_one_by_one(modules):
    """Over several chapters, in any order; and what has no change is the same table."""
    wrong, same = await modules("""
      const messages = [snapshot(1, 1000, { pods: { p: { node: "n" } }, nodes: { n: {} } }, "a")];
      for (let v = 2; v < 1500; v += 1) {
        const rows = { [`p${v % 90}`]: v % 7 ? { node: `n${v}` } : null };
        messages.push(changes(v, 1000 + v, { pods: rows }));
      }
      const recording = new Recording();
      told(recording, messages);
      let tables = after(recording.at(0), []);
      const states = messages.map((message) => pods(tables = after(tables, [message])));
      const order = messages.map((_, i) => (i * 577) % messages.length);
      const wrong = order.filter((i) => JSON.stringify(pods(recording.at(messages[i].at + 0.5)))
        !== JSON.stringify(states[i]));
      return [wrong, recording.at(1001).nodes === recording.last.nodes];
    """)
    assert wrong == []
    assert same


async def test_no_more_is_kept_than_there_is_room_for_nor_what_is_long_ago(modules):
    size, begins, first, marks, last = await modules("""
      const recording = new Recording({ room: 200_000, span: 1e9 });
      recording.add(snapshot(1, 1000, { pods: { old: { node: "n" } } }, "a"), 100);
      for (let v = 2; v < 6000; v += 1) {
        const news = { [v]: { at: 1000 + v, kind: "event", text: `${v}` } };
        const pods = { [`p${v % 9}`]: { node: `n${v}` } };
        recording.add(changes(v, 1000 + v, { pods, news }), 100);
      }
      return [recording.size, recording.begins, pods(recording.at(0)).old.node,
        recording.history.marks[0].seen >= recording.begins, recording.last.pods.get("p8").node];
    """)
    assert size <= 200_000
    assert begins > 4000
    assert (first, marks, last) == ("n", True, "n5993")
    begins = await modules("""
      const recording = new Recording({ room: 1e9, span: 3600 });
      for (let v = 1; v < 9000; v += 1) {
        recording.add(changes(v, v, { pods: { p: { node: `${v}` } } }));
      }
      return recording.begins;
    """)
    assert 8999 - 3600 - 501 <= begins <= 8999 - 3600 + 1


async def test_what_was_told_twice_is_taken_once_and_what_was_missed_is_known_to_be(modules):
    gaps, shares = await modules("""
      const recording = new Recording();
      const of = (edge) => ({ workloads: { w: { edge, total: 4, target: 1 } } });
      told(recording, [snapshot(1, 100, of(1), "a"), changes(2, 101, of(2)), changes(2, 101, of(2)),
        changes(9, 130, of(3))]);
      const { gaps, shares } = recording.history;
      return [gaps, shares.get("w").map(({ at, edge }) => [at, edge])];
    """)
    assert gaps == [{"from": 101, "to": 130}]
    assert shares == [[100, 1], [101, 2], [130, 3]]


async def test_a_chart_has_no_share_while_nothing_is_known(modules):
    lines, areas = await modules("""
      const { Chart } = await import("/page/chart.js");
      const { html, render } = await import("/page/vendor/htm-preact.js");
      const recording = new Recording();
      const row = { edge: 1, total: 2, target: 1 };
      told(recording, [snapshot(1, 100, { workloads: { w: row } }, "a"),
        changes(2, 110, { workloads: { w: { ...row, edge: 2 } } }),
        snapshot(1, 180, {}, "b"), changes(2, 182, { workloads: { w: row } })]);
      const place = document.createElement("div");
      render(html`<${Chart} name="w" colour="red" at=${200} ...${{ row, recording }} />`, place);
      const count = (name, letter) => (
        place.querySelector(`.${name}`).getAttribute("d").split(letter).length - 1);
      return [[count("line", "M"), count("line", "L")], count("area", "M")];
    """)
    # Two lines, one of them with a step.
    assert (lines, areas) == ([2, 1], 3)


async def test_another_run_follows_after_a_gap_or_begins_anew_if_its_clock_is_another(modules):
    kept, anew, back = await modules("""
      const recording = new Recording();
      const open = { moves: { "plan-1/p": { pod: "p", state: "moving", at: 100, began: 100 } } };
      told(recording, [snapshot(7, 100, { pods: { old: {} }, ...open }, "a"),
        snapshot(1, 160, { pods: { fresh: {} } }, "b"), changes(2, 161, { pods: { more: {} } })]);
      const { gaps, moves } = recording.history;
      const kept = [pods(recording.at(150)), pods(recording.last), gaps,
        [...moves.values()][0].ends, recording.version, recording.run];
      told(recording, [snapshot(1, 50, { pods: { other: {} } }, "c")]);
      const { begins, ends, history } = recording;
      const anew = [begins, ends, pods(recording.at(0)), history.gaps];
      told(recording, [snapshot(2, 10, { pods: { back: {} } }, "c")]);
      return [kept, anew, [recording.begins, pods(recording.last)]];
    """)
    assert kept == [{"old": {}}, {"fresh": {}, "more": {}}, [{"from": 100, "to": 160}], 100, 2, "b"]
    assert anew == [50, 50, {"other": {}}, []]
    assert back == [10, {"back": {}}]


async def test_news_and_ended_moves_of_earlier_runs_stay_in_the_tables(modules):
    news, moves, known, count = await modules("""
      const recording = new Recording();
      const move = (state) => ({ pod: "p", source: "a", target: "b", state, at: 100, began: 100 });
      const story = (text) => ({ at: 100, kind: "move", text, move: "plan-1/p" });
      told(recording, [
        snapshot(1, 100, { moves: { "plan-1/p": move("completed"), "plan-2/p": move("moving") },
          news: { 1: story("first") } }, "a"),
        snapshot(1, 160, { moves: { "plan-1/p": move("failed") }, news: {} }, "b"),
        changes(2, 161, { news: { 1: story("second") } }),
        snapshot(1, 200, {}, "c"),
      ]);
      const { news, moves } = recording.last;
      return [[...news.values()].map(({ text, move }) => [text, moves.get(move).state]),
        [...moves.keys()], [...recording.at(170).news.keys()], recording.history.marks.length];
    """)
    assert news == [["first", "completed"], ["second", "failed"]]
    assert moves == ["plan-1/p@a", "plan-1/p@b"]
    assert known == ["1@a", "1"]
    assert count == 0


async def test_moves_at_the_same_time_are_below_each_other_and_now_is_kept_up_with(modules):
    found = await modules("""
      const x = scale({ from: 0, to: 100 }, 100);
      const move = (begins, ends) => ({ begins, ends, row: { state: "moving" } });
      return spans([move(0, 10), move(5, null), move(20, 30), move(-9, -5)], x)
        .map(({ row, left, right }) => [row, left, right]);
    """)
    assert found == [[0, 0, 10], [1, 5, 100], [0, 20, 30]]
    grown, near, later, zoom, shown = await modules("""
      const wanted = { from: null, length: 600 };
      return [stretch(wanted, 0, 40), stretch(wanted, 0, 1201), stretch(wanted, 0, 1259),
        zoomed({ from: 0, to: 100 }, 0.5, 80, 0, 100), including({ from: 0, to: 50 }, 70, 0, 100)];
    """)
    assert grown == {"from": 0, "to": 60}
    assert near == later == {"from": 660, "to": 1260}
    assert zoom == {"from": 40, "length": 50}
    assert shown["from"] <= 70 <= shown["from"] + shown["length"]
