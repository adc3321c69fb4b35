"""A sheet to draw on, measured in pixels from its upper left corner."""

import io

import attrs
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from PIL import Image

INK, FAINT, RULE = "#24292e", "#6e7780", "#e3e5e8"
_GROUND = "#f4f5f5"
_DPI = 100
#: points a pixel
_POINT = 72 / _DPI
#: of a letter, on the average, as a part of its height
_LETTER = 0.55
#: colours of the picture: lines on white need few, and it is a third of the size
_COLOURS = 128


@attrs.frozen
class Box:
    """Pixels: the upper left corner, and the size."""

    x: float
    y: float
    w: float
    h: float

    def inside(self, left: float, top: float, right: float, bottom: float) -> "Box":
        return Box(self.x + left, self.y + top, self.w - left - right, self.h - top - bottom)


class Sheet:
    def __init__(self, width: int, height: int) -> None:
        self._width, self._height = width, height
        self._figure = Figure(figsize=(width / _DPI, height / _DPI), dpi=_DPI, facecolor=_GROUND)

    def axes(self, box: Box) -> Axes:
        share = (box.x / self._width, 1 - (box.y + box.h) / self._height)
        size = (box.w / self._width, box.h / self._height)
        axes = self._figure.add_axes((*share, *size), zorder=2)  # above the rectangles
        axes.set_facecolor("none")
        axes.tick_params(labelsize=10 * _POINT, colors=FAINT, length=0)
        axes.tick_params("x", pad=7)
        axes.grid(color=RULE, linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[:].set_visible(False)
        return axes

    def rectangle(self, box: Box, colour: str, edge: str = "none") -> None:
        corner = (box.x / self._width, 1 - (box.y + box.h) / self._height)
        self._figure.add_artist(
            Rectangle(
                corner, box.w / self._width, box.h / self._height,
                transform=self._figure.transFigure, facecolor=colour, edgecolor=edge, linewidth=0.7,
            )
        )  # fmt: skip

    def dash(self, x: float, y: float, length: float, colour: str) -> None:
        across = (x / self._width, (x + length) / self._width)
        at = 1 - y / self._height
        self._figure.add_artist(
            Line2D(across, (at, at), transform=self._figure.transFigure, color=colour, linewidth=2)
        )

    def text(
        self, x: float, y: float, words: str, size: float = 12, *,
        colour: str = INK, align: str = "left", weight: str = "normal", within: float | None = None,
    ) -> None:  # fmt: skip
        """Around the height `y`; what is wider than `within` is cut."""
        if within is not None and width(words, size) > within:
            words = words[: max(1, int(within / (size * _LETTER)) - 1)] + "…"
        self._figure.text(
            x / self._width, 1 - y / self._height, words, fontsize=size * _POINT, color=colour,
            ha=align, va="center_baseline", weight=weight, parse_math=False,
        )  # fmt: skip

    def png(self) -> bytes:
        drawn, file = io.BytesIO(), io.BytesIO()
        self._figure.savefig(drawn, format="png", dpi=_DPI)
        Image.open(drawn).convert("RGB").quantize(_COLOURS).save(file, "PNG", optimize=True)
        return file.getvalue()


def width(words: str, size: float) -> float:
    """Pixels, nearly."""
    return len(words) * size * _LETTER
