"""SVG charts drawn by matplotlib: one colour and one pattern per policy.

matplotlib is imported when the first chart is drawn, not before. Colours are CSS variables with the
light value as fallback, so an embedding page applies its own theme.
"""

import io
import itertools
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape, unescape
from typing import TYPE_CHECKING, Any

import attrs

from kubedsm_lab.replay.variants import CONTENDERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: light and dark: contrast of at least 3 to 1 on either ground, distinct for colour-blind readers;
#: the dashboard gives workloads the same colours
COLOURS = (
    ("#3c4e9d", "#5d75d2"),
    ("#b17f3a", "#f8b967"),
    ("#129b77", "#99f2d0"),
    ("#794a74", "#9e6f98"),
    ("#2472a6", "#45aef7"),
    ("#a44f54", "#ec787e"),
    ("#876f0b", "#c19f07"),
    ("#6c747f", "#a8b0bc"),
    ("#9b76d4", "#dac6ff"),
    ("#8a3e19", "#bb5c2f"),
)
#: by pattern number: hatch of a bar
HATCHES = ("", "////", "\\\\\\\\", "|||", "---", "+++")
INK, FAINT, RULE, GROUND = "#1b1f24", "#59636e", "#d9dee3", "#fffffe"
#: name of the CSS variable that stands for each colour of a picture
VARIABLES: Mapping[str, str] = {
    INK: "ink",
    FAINT: "faint",
    RULE: "rule",
    GROUND: "ground",
    **{light: f"c{index}" for index, (light, _) in enumerate(COLOURS)},
}
#: inches: panel width, distance of two bars, row of an area panel
_WIDTH, _BAR, _ROW = 3.7, 0.27, 0.5
#: panels next to each other; letters of a policy name and of the description on one line
_COLUMNS, _NAME, _ABOUT = 3, 22, 52
#: points per inch of an SVG
_POINTS = 72
_SETTINGS: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "kubedsm",
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": INK,
    "text.parse_math": False,
    "axes.edgecolor": RULE,
    "axes.labelcolor": FAINT,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": RULE,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "hatch.color": GROUND,
    "hatch.linewidth": 0.7,
}
_NAMESPACE = ' xmlns="http://www.w3.org/2000/svg"'
_SVG = re.compile(r"<svg [^>]*>")
_METADATA = re.compile(r"<metadata>.*?</metadata>", re.DOTALL)
_SAID = re.compile(r"<title>(.*?)</title><desc>(.*?)</desc>", re.DOTALL)
#: width and height of a picture, and its height without the heading
_SIZE = re.compile(
    r'data-heading="([\d.]+)" width="([\d.]+)pt" height="([\d.]+)pt" viewBox="[^"]*"'
)

#: seconds since the start, Ready pods at the edge, Ready pods in all
Changes = Sequence[Sequence[float]]


@attrs.frozen
class Look:
    colour: int
    pattern: int

    @classmethod
    def numbered(cls, index: int) -> "Look":
        """Return the colour and pattern with the given index; after 60 combinations the sequence
        repeats.
        """
        round_, colour = divmod(index, len(COLOURS))
        return cls(colour, (colour + round_) % len(HATCHES))

    @property
    def ink(self) -> str:
        return COLOURS[self.colour][0]


_KNOWN = {name: Look.numbered(index) for index, name in enumerate(CONTENDERS)}


def assign_looks(names: Iterable[str]) -> Mapping[str, Look]:
    """Assign colour and pattern to each policy: fixed ones for known policies."""
    numbers = itertools.count(len(_KNOWN))
    return {name: _KNOWN.get(name) or Look.numbered(next(numbers)) for name in dict.fromkeys(names)}


@attrs.frozen
class Panel:
    title: str
    #: inches
    height: float
    draw: Callable[["Axes"], None]


@attrs.frozen
class Bar:
    name: str
    look: Look
    value: float
    #: ends of a thin line, such as the least and the greatest seed
    ends: tuple[float, float] | None = None
    #: position of a line across the bar
    mark: float | None = None
    #: part of the value in full colour; the rest is pale
    part: float | None = None


def plot_bars(
    title: str, bars: Sequence[Bar], top: float, label: Callable[[float], str], unit: str = ""
) -> Panel:
    """Return a chart panel of horizontal bars with names and values; `top` is the end
    of the axis.
    """

    def draw(axes: "Axes") -> None:
        for place, bar in enumerate(bars):
            axes.barh(place, bar.value, 0.6, color=bar.look.ink, alpha=0.35)
            full = bar.value if bar.part is None else bar.part
            axes.barh(
                place, full, 0.6, color=bar.look.ink, hatch=HATCHES[bar.look.pattern], linewidth=0
            )
            if bar.ends is not None:
                axes.plot(bar.ends, (place, place), color=INK, linewidth=1, marker="|")
            if bar.mark is not None:
                axes.vlines(bar.mark, place - 0.45, place + 0.45, color=INK)
            axes.annotate(
                label(bar.value),
                (1, place),
                xycoords=("axes fraction", "data"),
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
            )
        names = [textwrap.fill(bar.name, _NAME) for bar in bars]
        axes.set_yticks(range(len(bars)), names, color=INK)
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.set_xlim(0, top or 1.0)
        axes.locator_params(axis="x", nbins=4)
        axes.xaxis.set_major_formatter(lambda value, _: label(value))
        axes.set_xlabel(unit)

    longest = max((len(bar.name) for bar in bars), default=0)
    return Panel(title, _BAR * len(bars) * (1.3 if longest > _NAME else 1.0) + 0.5, draw)


def plot_areas(
    title: str, services: Mapping[str, Changes], end: float, most: float, look: Look
) -> Panel:
    """Return a chart panel of numbers of pods over time, one row per service.

    Edge pods are in full colour, cloud pods pale above them; a row holds `most` pods.
    """

    def draw(axes: "Axes") -> None:
        row = 1.4 * most
        bases = [row * place for place in reversed(range(len(services)))]
        for base, changes in zip(bases, services.values(), strict=True):
            moments = [*(min(change[0], end) for change in changes), end]
            for column, alpha, hatch in ((2, 0.35, ""), (1, 1.0, HATCHES[look.pattern])):
                levels = [base + change[column] for change in changes]
                axes.fill_between(
                    moments,
                    [*levels, levels[-1]],
                    base,
                    step="post",
                    facecolor=look.ink,
                    alpha=alpha,
                    hatch=hatch,
                    linewidth=0,
                )
        axes.set_yticks(bases, [f"{name}, 0" for name in services])
        axes.set_yticks([base + most for base in bases], [f"{most:g}" for _ in bases], minor=True)
        axes.set_xlim(0, end)
        axes.set_xlabel("pods, over seconds")

    return Panel(title, _ROW * len(services) + 0.5, draw)


def render_picture(title: str, about: str, panels: Sequence[Panel]) -> bytes:
    """Render chart panels as one SVG file, in rows of three.

    `about` describes content and origin of the picture.
    """
    from matplotlib import rc_context  # noqa: PLC0415 - imported for the first picture
    from matplotlib.figure import Figure  # noqa: PLC0415
    from matplotlib.layout_engine import ConstrainedLayoutEngine  # noqa: PLC0415

    columns = min(len(panels), _COLUMNS)
    rows = [panels[first : first + columns] for first in range(0, len(panels), columns)]
    heights = [max(panel.height for panel in row) + 0.3 for row in rows]
    words = textwrap.wrap(about, _ABOUT * columns)
    heading = 0.35 + 0.17 * len(words)
    width, height = _WIDTH * columns, heading + sum(heights)
    drawn = io.StringIO()
    with rc_context(_SETTINGS):
        layout = ConstrainedLayoutEngine(rect=(0, 0, 1, 1 - heading / height))
        figure = Figure((width, height), facecolor=GROUND, layout=layout)
        figure.text(0.1 / width, 1 - 0.2 / height, title, size=11, weight="bold", va="center")
        figure.text(0.1 / width, 1 - 0.32 / height, "\n".join(words), color=FAINT, va="top")
        grid = figure.subplots(len(rows), columns, squeeze=False, height_ratios=heights)
        for axes, panel in itertools.zip_longest(grid.flat, panels):
            if panel is None:
                axes.set_axis_off()
                continue
            axes.set_facecolor("none")
            axes.set_title(panel.title)
            panel.draw(axes)
        figure.savefig(drawn, format="svg", metadata={"Date": None})
    body = _METADATA.sub("", _SVG.split(drawn.getvalue(), maxsplit=1)[1], count=1)
    body = body.replace("xlink:href", "href")
    for colour, variable in VARIABLES.items():
        shown = f"var(--{variable}, {colour})"
        body = body.replace(f'fill="{colour}"', f'style="fill: {shown}"')
        body = body.replace(f": {colour}", f": {shown}")
    wide, high, top = (round(inches * _POINTS, 1) for inches in (width, height, heading))
    return (
        f'<svg{_NAMESPACE} role="img" aria-label="{escape(title)}" data-heading="{top}"'
        f' width="{wide}pt" height="{high}pt" viewBox="0 0 {wide} {high}">'
        f"<title>{escape(title)}</title><desc>{escape(about)}</desc>{body}"
    ).encode()


def split_picture(content: bytes) -> tuple[str, str, str]:
    """Return title, description and drawing of an SVG file made by `render_picture`.

    The drawing is without the heading.
    """
    text = content.decode()
    said = _SAID.search(text)
    title, about = map(unescape, said.groups()) if said else ("", "")

    def crop(size: re.Match[str]) -> str:
        top, wide, high = map(float, size.groups())
        below = round(high - top, 1)
        return f'width="{wide}pt" height="{below}pt" viewBox="0 {top} {wide} {below}"'

    return title, about, _SIZE.sub(crop, text.replace(_NAMESPACE, "", 1), count=1)
