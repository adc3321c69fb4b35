"""Replicas over time, and the times to recover."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence

from kubedsm_lab.replay.charts.lines import Line, key, lines, upright
from kubedsm_lab.replay.charts.looks import Look, looks_of
from kubedsm_lab.replay.charts.panel import Panel, picture
from kubedsm_lab.replay.hpa.figures import recovery
from kubedsm_lab.replay.hpa.published import TABLE_4, WINDOW
from kubedsm_lab.replay.hpa.tables import MODELLED, as_they_are
from kubedsm_lab.replay.hpa.trial import LOOK, Outcome
from kubedsm_lab.replay.hpa.trial import Look as Seen
from loadgen.recovery import FIND_SECONDS, HOLD_SECONDS, WINDOW_SECONDS

#: seconds from FIND's start that are drawn: until all has settled
_SHOWN = 180.0
_SERIES: Sequence[tuple[str, Callable[[Seen], int]]] = (
    ("desired", lambda look: look.desired),
    ("current", lambda look: look.current),
    ("pods", lambda look: look.pods),
    ("Ready", lambda look: look.ready),
)


def pictures(outcomes: Sequence[Outcome]) -> Mapping[str, bytes]:
    """SVG files by name."""
    plain = as_they_are(outcomes)
    if not plain:
        return {}
    return {
        "replicas-over-time.svg": picture(
            "Replicas over time",
            "The median over the seeds, shaded from the least to the most; seconds from FIND's"
            f" start, HOLD begins at the dotted line. {MODELLED}.",
            _replicas(plain),
        ),
        "time-to-recover.svg": picture(
            "How soon the service is well again",
            "The share of seeds that have recovered within so many windows of HOLD; dotted lines:"
            f" when runs that were published had. {MODELLED}.",
            _recoveries(plain),
        ),
    }


def _replicas(plain: Mapping[str, list[Outcome]]) -> list[Panel]:
    # Of every policy the same four, which are no policies and look like none of ours.
    looks = [Look(7, 4), Look(6, 2), Look(3, 1), Look(2, 0)]
    named = [(name, look) for (name, _), look in zip(_SERIES, looks, strict=True)]
    panels = [key("replicas", named)]
    for policy, outcomes in plain.items():
        drawn = [
            _over_time(outcomes, series, name, look)
            for (name, series), look in zip(_SERIES, looks, strict=True)
        ]
        panel = lines(policy, drawn, "s from FIND's start", "", over=_SHOWN)
        upright(panel, FIND_SECONDS, _SHOWN, "HOLD")
        panels.append(panel)
    return panels


def _over_time(
    outcomes: Sequence[Outcome], series: Callable[[Seen], int], name: str, look: Look
) -> Line:
    moments = [LOOK * number for number in range(int(_SHOWN / LOOK) + 1)]
    values = [[series(_at(each, moment)) for each in outcomes] for moment in moments]
    return Line(
        name,
        look,
        [(moment, statistics.median(each)) for moment, each in zip(moments, values, strict=True)],
        [(min(each), max(each)) for each in values],
        steps=True,
    )


def _at(outcome: Outcome, moment: float) -> Seen:
    return next(look for look in reversed(outcome.looks) if look.at <= moment)


def _recoveries(plain: Mapping[str, list[Outcome]]) -> list[Panel]:
    windows = range(int(HOLD_SECONDS / WINDOW_SECONDS) + 1)
    looks, drawn = looks_of(plain), []
    for policy, outcomes in plain.items():
        times = [recovery(each) / WINDOW_SECONDS for each in outcomes]
        shares = [(n, sum(time <= n for time in times) / len(times)) for n in windows]
        drawn.append(Line(policy, looks[policy], shares, steps=True))
    over = math.ceil(1.3 * max(run.ttr for run in TABLE_4.values()) / WINDOW)
    panel = lines("share of seeds", drawn, "windows from HOLD's start", "", over=over, top=1.0)
    for name, run in TABLE_4.items():
        upright(panel, run.ttr / WINDOW, over, name)
    return [key("schedulers", list(looks.items())), panel]
