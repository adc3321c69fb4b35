"""Replicas over time, and the times to recover. Needs matplotlib (`kubedsm[plots]`)."""

import math
import statistics
from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kubedsm.replay.hpa.figures import recovery
from kubedsm.replay.hpa.published import TABLE_4, WINDOW
from kubedsm.replay.hpa.tables import as_they_are
from kubedsm.replay.hpa.trial import LOOK, Look, Outcome
from kubedsm.replay.plots import PALETTE, png
from loadgen.recovery import FIND_SECONDS, HOLD_SECONDS, WINDOW_SECONDS

_MODELLED = "a model, not a measurement; schedulers on an emulated cluster in virtual time"
#: seconds from FIND's start that are drawn: until all has settled
_SHOWN = 180.0
_SERIES: Sequence[tuple[str, Callable[[Look], int]]] = (
    ("desired", lambda look: look.desired),
    ("current", lambda look: look.current),
    ("pods", lambda look: look.pods),
    ("Ready", lambda look: look.ready),
)


def pictures(outcomes: Sequence[Outcome]) -> dict[str, bytes]:
    """PNG files by name."""
    plain = as_they_are(outcomes)
    if not plain:
        return {}
    drawn = {"replicas-over-time": _replicas(plain), "time-to-recover": _recoveries(plain)}
    return {f"{name}.png": png(figure, _MODELLED) for name, figure in drawn.items()}


def _replicas(plain: dict[str, list[Outcome]]) -> Figure:
    figure = Figure(figsize=(3.4 * len(plain), 3.4))
    panels = figure.subplots(1, len(plain), squeeze=False, sharey=True)[0]
    for axes, (policy, outcomes) in zip(panels, plain.items(), strict=True):
        for place, (name, series) in enumerate(_SERIES):
            _over_time(axes, outcomes, series, name, PALETTE[place])
        axes.axvline(FIND_SECONDS, color="#999999", linewidth=0.8, linestyle="--")
        axes.set_title(policy, fontsize=9)
        axes.set_xlabel("s from FIND's start (line: HOLD)")
    panels[0].set_ylabel("median over seeds; least to most")
    panels[0].legend(fontsize=7)
    return figure


def _over_time(
    axes: Axes, outcomes: Sequence[Outcome], series: Callable[[Look], int], name: str, colour: str
) -> None:
    moments = [LOOK * number for number in range(int(_SHOWN / LOOK) + 1)]
    values = [[series(_at(each, moment)) for each in outcomes] for moment in moments]
    middle = [statistics.median(each) for each in values]
    axes.step(moments, middle, where="post", color=colour, linewidth=1.2, label=name)
    axes.fill_between(
        moments,
        list(map(min, values)),
        list(map(max, values)),
        step="post",
        color=colour,
        alpha=0.1,
    )


def _at(outcome: Outcome, moment: float) -> Look:
    return next(look for look in reversed(outcome.looks) if look.at <= moment)


def _recoveries(plain: dict[str, list[Outcome]]) -> Figure:
    """The share of seeds recovered within so many windows, and when published runs had."""
    figure = Figure(figsize=(6, 3.6))
    axes = figure.add_subplot()
    windows = range(int(HOLD_SECONDS / WINDOW_SECONDS) + 1)
    for place, (policy, outcomes) in enumerate(plain.items()):
        times = [recovery(each) / WINDOW_SECONDS for each in outcomes]
        shares = [sum(time <= number for time in times) / len(times) for number in windows]
        # Policies that are level would hide each other.
        width = 1.2 + 1.6 * (len(plain) - 1 - place)
        axes.step(
            windows, shares, where="post", color=PALETTE[place], linewidth=width, label=policy
        )
    for name, run in TABLE_4.items():
        axes.axvline(run.ttr / WINDOW, color="#999999", linewidth=0.8, linestyle=":")
        axes.text(run.ttr / WINDOW, 0.02, f" {name}", rotation=90, fontsize=7, va="bottom")
    axes.set_xlim(0, math.ceil(1.3 * max(run.ttr for run in TABLE_4.values()) / WINDOW))
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("windows from HOLD's start (dotted: published runs)")
    axes.set_ylabel("share of seeds that have recovered")
    axes.legend(fontsize=7, loc="lower right")
    return figure
