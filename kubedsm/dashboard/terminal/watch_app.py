"""Terminal application of `kubedsm watch`: keys, drawing and updates, on textual."""

import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from time import perf_counter
from typing import ClassVar

from rich.console import RenderableType
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Footer, Input, Static

from kubedsm.dashboard.rows import Snapshot
from kubedsm.dashboard.terminal.browser import NUMBERED, Browser
from kubedsm.dashboard.terminal.following import (
    Away,
    NotExplainedError,
    NotShownError,
    Page,
    fetch_edge_pods,
    fetch_explanation,
)
from kubedsm.explain.explanation import Link
from kubedsm.explain.rendering import render_text
from kubedsm.process.clock import Clock

#: seconds between two drawings with changes, and without: the picture shows ages
REDRAW, REFRESH = 0.25, 1.0
_HELP = """\
1 to 7      services, sites, nodes, pods, migrations, news, status
Up, Down    select a row; also k, j, Page Up, Page Down, Home, End
Enter       open the row: the nodes of a site, the pods of a node or
            service, the explanation of a pod, migration or news
w           why? the scheduler's explanation of the row
Esc         back: remove the filter, or return to the table before
/           filter: rows with all words, in any column
n           choose a namespace
s, r        sort by the next column; reverse the order
q, Ctrl-C   quit

A trend is the edge share, from 0 (low) to 100% (high).
The command only reads: nothing in the cluster changes."""


class _Picture(Widget):
    """Widget that shows the browser's current table."""

    def __init__(self, app: "WatchApp") -> None:
        super().__init__()
        self._watch = app
        #: duration of the latest drawing
        self.seconds = 0.0

    def render(self) -> RenderableType:
        begun = perf_counter()
        try:
            return self._watch.browser.render(self._watch.now, self.size.width, self.size.height)
        finally:
            self.seconds = perf_counter() - begun


class _TextScreen(ModalScreen[None]):
    """Text above the picture, closed by Esc."""

    AUTO_FOCUS = "VerticalScroll"
    BINDINGS: ClassVar[list[BindingType]] = [("escape,q,enter", "dismiss", "close")]

    def __init__(self, text: RenderableType) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static(self._text)
        yield Footer(show_command_palette=False)


class WatchApp(App[str]):
    """Application of `kubedsm watch`; its result is the reason for giving up, if any."""

    TITLE = "kubedsm watch"
    AUTO_FOCUS = None
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    _Picture { width: 100%; height: 1fr; }
    Input { border: none; height: 1; padding: 0; display: none; }
    _TextScreen VerticalScroll { margin: 1 2; padding: 0 1; border: round ansi_blue; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "quit"),
        Binding("ctrl+c,ctrl+q", "quit", show=False, priority=True, system=True),
        Binding("question_mark", "help", "help", key_display="?"),
        Binding("enter", "open", "open"),
        Binding("escape", "return", "back"),
        Binding("w", "why", "why"),
        Binding("slash", "filter", "filter", key_display="/"),
        Binding("n", "browse('choose_namespace')", "namespace"),
        Binding("s", "browse('sort')", "sort"),
        Binding("r", "browse('reverse')", show=False),
        *(
            Binding(keys, f"browse('move', {lines})", show=False)
            for keys, lines in (("up,k", -1), ("down,j", 1), ("home", -(10**9)), ("end", 10**9))
        ),
        Binding("pageup", "browse('move_pages', -1)", show=False),
        Binding("pagedown,space", "browse('move_pages', 1)", show=False),
        *(
            Binding(f"{number}", f"browse('show', '{view}')", show=False)
            for number, view in enumerate(NUMBERED, 1)
        ),
    ]

    def __init__(
        self, page: Page, first: Snapshot, updates: AsyncGenerator[Snapshot | Away], clock: Clock
    ) -> None:
        super().__init__(ansi_color=True)
        self.browser = Browser(page.server)
        self.browser.observe(first)
        self._picture = _Picture(self)
        self._page = page
        self._updates = updates
        self._clock = clock
        #: time of the latest update, and of the latest drawing, on the local clock
        self._updated = self._drawn = clock.monotonic()
        self._stale = False

    @property
    def now(self) -> float:
        """Seconds since the epoch, by the scheduler's clock."""
        return self.browser.seen.at + self._clock.monotonic() - self._updated

    def compose(self) -> ComposeResult:
        yield self._picture
        yield Input(placeholder="words in any column; Enter keeps the filter, Esc removes it")
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self.theme = "ansi-dark"
        self.set_interval(REDRAW, self._redraw)
        self.run_worker(self._load_history())
        self.run_worker(self._follow())

    async def _load_history(self) -> None:
        if recorded := await fetch_edge_pods(self._page):
            self.browser.load_history(recorded)
            self._stale = True

    async def _follow(self) -> None:
        """Take over updates until the scheduler is known to serve no page any more."""
        try:
            async for update in self._updates:
                self.browser.observe(update)
                self._updated = self._updated if self.browser.away else self._clock.monotonic()
                self._stale = True
        except NotShownError as error:
            self.exit(str(error))

    def _redraw(self) -> None:
        """Draw changes and ages, in a fifth of the process's time at most."""
        if not self.is_headless and not sys.stdin.isatty():
            self.exit("the terminal is closed")
        period = max(REDRAW if self._stale else REFRESH, 5 * self._picture.seconds)
        if self._clock.monotonic() - self._drawn >= period:
            self._draw()

    def _draw(self) -> None:
        self._stale, self._drawn = False, self._clock.monotonic()
        self._picture.refresh()

    def action_browse(self, method: str, *arguments: object) -> None:
        """Call a method of the browser that changes the table or the selection."""
        getattr(self.browser, method)(*arguments)
        self._draw()

    def action_open(self) -> None:
        subject = self.browser.open()
        self._draw()
        if subject is not None:
            self._explain(subject)

    def action_why(self) -> None:
        entry = self.browser.selected
        if entry is not None and entry.subject is not None:
            self._explain(entry.subject)

    def _explain(self, subject: Link) -> None:
        async def show() -> None:
            try:
                text = render_text(await fetch_explanation(self._page, subject))
            except NotExplainedError as error:
                text = Text(f"{subject.kind} {subject.key}: {error}")
            self.push_screen(_TextScreen(text))

        self.run_worker(show(), exclusive=True, group="why")

    def action_help(self) -> None:
        self.push_screen(_TextScreen(Text(_HELP)))

    def action_filter(self) -> None:
        field = self.query_one(Input)
        field.value = " ".join(self.browser.level.words)
        field.display = True
        field.focus()

    def action_return(self) -> None:
        if not self._hide_filter():
            self.browser.go_back()
        else:
            self.browser.filter("")
        self._draw()

    def _hide_filter(self) -> bool:
        """Hide the filter's input; return whether it was visible."""
        field = self.query_one(Input)
        was_visible, field.display = field.display, False
        return was_visible

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.input.display:
            self.browser.filter(event.value)
            self._draw()

    def on_input_submitted(self) -> None:
        self._hide_filter()


async def show_tables(page: Page, updates: AsyncGenerator[Snapshot | Away], clock: Clock) -> None:
    """Show the scheduler's state in the terminal until the user quits. Raise NotShownError."""
    async with aclosing(updates):
        first = await anext(updates)
        while isinstance(first, Away):
            first = await anext(updates)
        app = WatchApp(page, first, updates, clock)
        gave_up = await app.run_async(mouse=False)
    if gave_up:
        raise NotShownError(gave_up)
