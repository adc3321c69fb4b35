"""Navigation through the tables of `kubedsm watch`, and the picture of the current table."""

from collections.abc import Iterable, Sequence
from typing import get_args

import attrs
from rich.console import Group, RenderableType
from rich.text import Text

from kubedsm.dashboard.rows import Snapshot
from kubedsm.dashboard.terminal.cells import count_lines, crop_lines
from kubedsm.dashboard.terminal.following import Away, EdgePods, list_edge_pods
from kubedsm.dashboard.terminal.seen import ShareHistory, TypedSnapshot
from kubedsm.dashboard.terminal.summary import describe_health, list_activity
from kubedsm.dashboard.terminal.views import (
    LISTS,
    Entry,
    Listing,
    Scope,
    Source,
    View,
)
from kubedsm.explain.explanation import Link
from kubedsm.terminal.fitted_table import Column, FittedTable

VIEWS: tuple[View, ...] = get_args(View)
#: views with a number key; the table of namespaces has the key `n`
NUMBERED = VIEWS[:-1]
#: lines of the selected row's text, and of current activity below a long table
_DETAIL, _ACTIVITY = 2, 4
#: minimum terminal height for current activity below a long table
_TALL = 30
#: seconds between computations of ages with many pods
_MANY, _SLOW = 2_000, 10


@attrs.define
class Level:
    """Table on the way from the first table to a pod: its restriction, order and selection."""

    view: View
    scope: Scope = attrs.field(factory=Scope)
    #: lower-case words that each row must contain
    words: tuple[str, ...] = ()
    #: number of the column that orders the rows; None for the view's own order
    column: int | None = None
    backwards: bool = False
    #: selected row: its key, and its number among the visible rows
    key: str = ""
    number: int = 0
    #: first row on the screen
    top: int = 0


@attrs.define(eq=False)
class Browser:
    """Tables of a scheduler's dashboard, of which one is shown, with a selected row."""

    #: address of the page
    server: str
    history: ShareHistory = attrs.field(factory=ShareHistory)
    seen: TypedSnapshot = attrs.field(init=False)
    #: reason for missing updates; empty while connected
    away: str = ""
    #: the last one is shown
    levels: list[Level] = attrs.field(factory=lambda: [Level("services")])
    #: rows on the screen
    _page: int = attrs.field(default=1, init=False)
    _entries: Sequence[Entry] = attrs.field(default=(), init=False)
    #: latest table, and its input: it is computed once for several keys
    _listing: tuple[object, Listing] | None = attrs.field(default=None, init=False)

    @property
    def level(self) -> Level:
        return self.levels[-1]

    def observe(self, update: Snapshot | Away) -> None:
        """Take over an update from the scheduler."""
        if isinstance(update, Away):
            self.away = update.why
            return
        self.away, self.seen, self._listing = "", TypedSnapshot.of(update), None
        self.history.observe(self.seen.at, list_edge_pods(self.seen.workloads))

    def load_history(self, recorded: Iterable[EdgePods]) -> None:
        """Replace the trends by recorded changes of edge pods, oldest first."""
        self.history, self._listing = ShareHistory(), None
        for at, edge_pods in recorded:
            self.history.observe(at, edge_pods)
        self.history.observe(self.seen.at, list_edge_pods(self.seen.workloads))

    def show(self, view: View, scope: Scope | None = None) -> None:
        """Show a view of the whole cluster, or of the current namespace."""
        self.levels = [Level(view, scope or Scope(namespace=self.level.scope.namespace))]

    def choose_namespace(self) -> None:
        """Show the table of namespaces; the chosen namespace then restricts the current view."""
        if self.level.view != "namespaces":
            self.levels.append(Level("namespaces"))

    def open(self) -> Link | None:
        """Show the table that the selected row leads to; else return its subject, if any."""
        entry = self.selected
        if entry is None or entry.leads is None:
            return entry.subject if entry else None
        view, scope = entry.leads
        if self.level.view == "namespaces":
            before = self.levels[0].view if self.levels[:-1] else view
            self.show(before, scope)
        else:
            scope = attrs.evolve(scope, namespace=self.level.scope.namespace)
            self.levels.append(Level(view, scope))
        return None

    def go_back(self) -> None:
        """Remove the filter, else return to the table above, else to all namespaces."""
        if self.level.words:
            self.level.words = ()
        elif self.levels[1:]:
            self.levels.pop()
        else:
            self.level.scope = Scope()

    def filter(self, text: str) -> None:
        """Show rows only that contain each of the words."""
        self.level.words = tuple(text.lower().split())

    def sort(self) -> None:
        """Order the rows by the next column; after the last one, in the view's own order."""
        headings = self._listing[1].headings if self._listing else ()
        named = [at for at, heading in enumerate(headings) if heading.text]
        rest = [at for at in named if self.level.column is None or at > self.level.column]
        self.level.column = rest[0] if rest else None

    def reverse(self) -> None:
        self.level.backwards = not self.level.backwards

    def move(self, lines: int) -> None:
        """Select another row, `lines` below or above."""
        number = min(max(0, self.level.number + lines), max(0, len(self._entries) - 1))
        self.level.number = number
        self.level.key = self._entries[number].key if self._entries else ""

    def move_pages(self, pages: int) -> None:
        self.move(pages * self._page)

    @property
    def selected(self) -> Entry | None:
        number = self.level.number
        return self._entries[number] if number < len(self._entries) else None

    def render(self, now: float, width: int, height: int) -> Group:
        """Render health, the current table and activity as lines that fit the terminal.

        now: seconds since the epoch, by the scheduler's clock.
        """
        level = self.level
        listing = self._find_listing(now, width)
        self._entries = self._arrange(listing)
        self._restore_selection()
        head = [
            *describe_health(self.seen, self.server, self.away, width, height),
            self._describe_views(),
            Text(self._describe_table(len(listing.entries)), "dim", no_wrap=True),
        ]
        entry = self.selected
        detail = crop_lines(Text(entry.detail if entry else "", "italic"), width, _DETAIL)
        foot = [Text(listing.legend, "dim")] if listing.legend else []
        # One more line has the headings.
        room = height - 1 - sum(count_lines(each, width) for each in (*head, *foot, detail))
        has_activity = level.view not in ("migrations", "news", "status")
        least = _ACTIVITY if has_activity and height >= _TALL else 0
        rows = max(1, min(len(self._entries), room - least))
        self._page = rows
        level.top = min(max(level.top, level.number - rows + 1), level.number)
        level.top = max(0, min(level.top, len(self._entries) - rows))
        lines: list[RenderableType] = [*head, self._render_rows(listing, rows), *foot, detail]
        if has_activity and room - rows > 1:
            activity = list_activity(self.seen, now, width, room - rows - 1)
            lines += [Text("now and lately", "bold"), *activity] if activity else []
        return Group(*lines)

    def _find_listing(self, now: float, width: int) -> Listing:
        level = self.level
        source = Source(self.seen, self.history, now, width)
        period = 1 if len(self.seen.pods) < _MANY else _SLOW
        of = (now // period, width, level.view, level.scope)
        if self._listing is None or self._listing[0] != of:
            self._listing = of, LISTS[level.view](source, level.scope)
        return self._listing[1]

    def _arrange(self, listing: Listing) -> Sequence[Entry]:
        """Return the rows with the words of the filter, in the chosen order."""
        level, entries = self.level, listing.entries
        if level.words:
            entries = [entry for entry in entries if entry.has_words(level.words)]
        # Columns of unknown values are absent, also after a choice of them.
        if (at := level.column) is not None and at < len(listing.headings):
            entries = sorted(entries, key=lambda entry: entry.order(at))
        return entries[::-1] if level.backwards else entries

    def _restore_selection(self) -> None:
        """Find the selected row again after changes; if it is gone, keep its place."""
        level, last = self.level, max(0, len(self._entries) - 1)
        numbers = {entry.key: number for number, entry in enumerate(self._entries)}
        level.number = numbers.get(level.key, min(level.number, last)) if level.key else 0

    def _describe_views(self) -> Text:
        text = Text(no_wrap=True)
        for number, view in enumerate(NUMBERED, 1):
            text.append(f"{number} {view}", "reverse" if view == self.level.view else "")
            text.append("  ")
        return text

    def _describe_table(self, rows: int) -> str:
        """Describe the path to the table, its restriction and its number of rows."""
        level, shown = self.level, len(self._entries)
        scope = level.scope
        parts = [
            " > ".join(each.view for each in self.levels),
            *(part for part in (scope.site, scope.node, scope.workload) if part),
            f"namespace {scope.namespace}" if scope.namespace else "",
            f'filter "{" ".join(level.words)}"' if level.words else "",
        ]
        number = f"{shown} of {rows}" if shown < rows else f"{rows}"
        return f"{', '.join(part for part in parts if part)}: {number}"

    def _render_rows(self, listing: Listing, rows: int) -> FittedTable:
        level = self.level
        entries = self._entries[level.top : level.top + rows]
        mark = "\N{BLACK DOWN-POINTING SMALL TRIANGLE}"
        if level.backwards:
            mark = "\N{BLACK UP-POINTING SMALL TRIANGLE}"
        columns, cursor = [], level.number - level.top
        for at, heading in enumerate(listing.headings):
            cells = [heading.show(entry.values[at]) for entry in entries]
            # The selected row has inverse colours only.
            if cells and isinstance(cells[cursor], Text):
                cells[cursor] = str(cells[cursor])
            least = max(heading.least, listing.widths[at])
            text = f"{heading.text}{mark}" if at == level.column else heading.text
            columns.append(Column(text, cells, least, heading.use, heading.number))
        return FittedTable(columns, look="plain", cursor=cursor)
