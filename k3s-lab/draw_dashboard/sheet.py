"""Sheet with coordinates in pixels from its upper left corner."""

import io

import attrs
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from PIL import Image

INK, FAINT, RULE = "#24292e", "#6e7780", "#e3e5e8"
_GROUND = "#f4f5f5"
_DPI = 100
#: points per pixel
POINT = 72 / _DPI
#: mean width of a letter as a part of its height
_LETTER = 0.55
#: colours of the PNG: lines on white need few, and the file is a third of the size
_COLOURS = 128


@attrs.frozen
class Box:
    """Upper left corner and size in pixels."""

    x: float
    y: float
    w: float
    h: float

    def inside(self, left: float, top: float, right: float, bottom: float) -> "Box":
        return Box(self.x + left, self.y + top, self.w - left - right, self.h - top - bottom)


class Sheet:
    def __init__(self, width: int, height: int) -> None:
        self._size = width, height
        self._figure = Figure((width / _DPI, height / _DPI), dpi=_DPI, facecolor=_GROUND)
        self._paper = self._figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height, 0))
        self._paper.set_axis_off()

    def axes(self, box: Box) -> Axes:
        width, height = self._size
        place = box.x / width, 1 - (box.y + box.h) / height, box.w / width, box.h / height
        axes = self._figure.add_axes(place, facecolor="none")
        axes.tick_params(labelsize=10 * POINT, colors=FAINT, length=0)
        axes.tick_params("x", pad=7)
        axes.grid(color=RULE, linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[:].set_visible(False)
        return axes

    def rectangle(self, box: Box, colour: str, edge: str = "none") -> None:
        corner = box.x, box.y
        self._paper.add_patch(Rectangle(corner, box.w, box.h, fc=colour, ec=edge, lw=0.7))

    def text(
        self, x: float, y: float, words: str, size: float = 12, *,
        colour: str = INK, align: str = "left", weight: str = "normal", within: float | None = None,
    ) -> None:  # fmt: skip
        """Write around the height `y`; text wider than `within` is cut."""
        if within is not None and width(words, size) > within:
            words = words[: max(1, int(within / (size * _LETTER)) - 1)] + "…"
        self._paper.text(
            x, y, words, fontsize=size * POINT, color=colour,
            ha=align, va="center_baseline", weight=weight, parse_math=False,
        )  # fmt: skip

    def png(self) -> bytes:
        drawn, file = io.BytesIO(), io.BytesIO()
        self._figure.savefig(drawn, format="png", dpi=_DPI)
        Image.open(drawn).convert("RGB").quantize(_COLOURS).save(file, "PNG", optimize=True)
        return file.getvalue()


def width(words: str, size: float) -> float:
    """Estimate the width of text in pixels."""
    return len(words) * size * _LETTER
