"""A panel to draw on, and a picture of several: SVG that is light or dark as its reader is."""

import re
from collections.abc import Sequence
from html import escape, unescape

import attrs

from kubedsm_lab.replay.charts.looks import COLOURS, DASHES, HATCHES, MARKS, Look

#: pixels: wide enough for a phone
WIDTH = 340
_GAP, _COLUMNS, _LINE = 20, 3, 15
#: of a letter of 12 pixels, on the average
_LETTER = 6.2
#: so much wider are titles
_BOLD = 1.35

_LIGHT = {"ink": "#1b1f24", "faint": "#59636e", "rule": "#d9dee3", "ground": "#ffffff"}
_DARK = {"ink": "#e6e9ec", "faint": "#a3acb5", "rule": "#3a424a", "ground": "#15181c"}


def _rules(shade: dict[str, str], dark: int) -> str:
    rules = [
        f".chart text{{fill:{shade['ink']}}}.chart .faint{{fill:{shade['faint']}}}",
        f".chart .rule{{stroke:{shade['rule']}}}.chart .ground{{fill:{shade['ground']}}}",
        f".chart .mark{{stroke:{shade['ink']}}}.hatch{{stroke:{shade['ground']}}}",
    ]
    rules += [
        f".f{index}{{fill:{both[dark]}}}.s{index}{{stroke:{both[dark]}}}"
        for index, both in enumerate(COLOURS)
    ]
    return "".join(rules)


#: for a file, and for a page that shows several
STYLE = (
    ".chart{font:12px system-ui,sans-serif}.chart .title{font-weight:600;font-size:13px}"
    ".chart .small{font-size:11px}.chart .end{text-anchor:end}.chart .middle{text-anchor:middle}"
    ".chart .rule,.chart .mark,.chart .line,.hatch{fill:none}.chart .mark{stroke-width:1.5}"
    ".chart .line{stroke-linejoin:round}.hatch{stroke-width:1.3;opacity:.55}"
    f".chart .pale{{opacity:.35}}{_rules(_LIGHT, 0)}"
    f"@media screen and (prefers-color-scheme:dark){{{_rules(_DARK, 1)}}}"
)
#: what bars are hatched with; once in a file or page
PATTERNS = "".join(
    f'<pattern id="hatch{index}" width="6" height="6" patternUnits="userSpaceOnUse">'
    f'<path class="hatch" d="{path}"/></pattern>'
    for index, path in enumerate(HATCHES)
    if path
)
_PANEL = re.compile(r'<svg class="chart panel".*?</svg>', re.DOTALL)
_SAID = re.compile(r"<title>(.*?)</title><desc>(.*?)</desc>", re.DOTALL)


def shown(value: float) -> str:
    """A length in pixels."""
    return f"{value:.1f}".removesuffix(".0")


def width(words: str) -> float:
    """Pixels, nearly."""
    return _LETTER * len(words)


def cut(words: str, across: float) -> str:
    """What there is no room for is left out."""
    if width(words) <= across:
        return words
    return f"{words[: int(across / _LETTER) - 1]}\N{HORIZONTAL ELLIPSIS}"


@attrs.define
class Panel:
    title: str
    width: float = WIDTH
    height: float = 0
    _parts: list[str] = attrs.field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        if self.title:
            self.text(0, 14, cut(self.title, self.width / _BOLD), "title")
            self.height = max(self.height, 22)

    def text(self, x: float, y: float, words: str, kind: str = "", turned: str = "") -> None:
        """On the line `y`. kind: classes of the style. turned: so many degrees, about its place."""
        turn = f' transform="rotate({turned} {shown(x)} {shown(y)})"' if turned else ""
        self._parts.append(
            f'<text class="{kind}" x="{shown(x)}" y="{shown(y)}"{turn}>{escape(words)}</text>'
        )

    def path(self, kind: str, path: str, more: str = "") -> None:
        self._parts.append(f'<path class="{kind}" d="{path}"{more}/>')

    def bar(self, x: float, y: float, w: float, h: float, look: Look, pale: float = 0) -> None:
        """pale: so much of its end only faintly."""
        whole = f"M{shown(x)} {shown(y)}h{shown(w)}v{h}h{shown(-w)}z"
        if pale:
            self.path(f"f{look.colour} pale", whole)
            whole = f"M{shown(x)} {shown(y)}h{shown(w - pale)}v{h}h{shown(pale - w)}z"
        self.path(f"f{look.colour}", whole)
        self.hatched(whole, look)

    def hatched(self, path: str, look: Look) -> None:
        if look.pattern:
            self.path("", path, f' fill="url(#hatch{look.pattern})"')

    def line(self, path: str, look: Look, wide: float = 2) -> None:
        dash = DASHES[look.pattern]
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self.path(f"line s{look.colour}", path, f' stroke-width="{shown(wide)}"{dashed}')

    def mark(self, x: float, y: float, look: Look) -> None:
        at = f' transform="translate({shown(x)} {shown(y)})"'
        self.path(f"f{look.colour}", MARKS[look.pattern], at)

    def drawn(self, x: float = 0, y: float = 0) -> str:
        size = f"{shown(self.width)} {shown(self.height)}"
        wide, high = size.split()
        return (
            f'<svg class="chart panel" role="img" aria-label="{escape(self.title)}"'
            f' x="{shown(x)}" y="{shown(y)}" width="{wide}" height="{high}"'
            f' viewBox="0 0 {size}">{"".join(self._parts)}</svg>'
        )


def picture(title: str, about: str, panels: Sequence[Panel]) -> bytes:
    """A file. about: what is to be seen, and how it was found."""
    columns = min(len(panels), _COLUMNS)
    across = columns * (WIDTH + _GAP) + _GAP
    said = list(_lines(about, across - 2 * _GAP))
    top: float = 36 + _LINE * len(said)
    placed = []
    for first in range(0, len(panels), columns):
        row = panels[first : first + columns]
        placed += [p.drawn(_GAP + i * (WIDTH + _GAP), top) for i, p in enumerate(row)]
        top += max(panel.height for panel in row) + _GAP
    words = [f'<text class="title" x="{_GAP}" y="24">{escape(title)}</text>']
    words += [
        f'<text class="faint" x="{_GAP}" y="{42 + _LINE * index}">{escape(line)}</text>'
        for index, line in enumerate(said)
    ]
    return (
        f'<svg class="chart" xmlns="http://www.w3.org/2000/svg" width="{across}"'
        f' height="{shown(top)}" viewBox="0 0 {across} {shown(top)}">'
        f"<title>{escape(title)}</title><desc>{escape(about)}</desc>"
        f"<style>{STYLE}</style><defs>{PATTERNS}</defs>"
        f'<path class="ground" d="M0 0H{across}V{shown(top)}H0Z"/>'
        f"{''.join(words)}{''.join(placed)}</svg>\n"
    ).encode()


def parts_of(content: bytes) -> tuple[str, str, list[str]]:
    """Of such a file: its title, what it says, and its panels."""
    text = content.decode()
    said = _SAID.search(text)
    title, about = map(unescape, said.groups()) if said else ("", "")
    return title, about, _PANEL.findall(text)


def _lines(words: str, across: float) -> list[str]:
    lines = [""]
    for word in words.split():
        if lines[-1] and width(f"{lines[-1]} {word}") > across:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    return lines
