"""`kubedsm replay --preset hpa`: trials, plots and results of the autoscaler experiment."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence

import attrs

from kubedsm_lab.baselines.registry import CACHE_SCHEDULER, KUBEDSM
from kubedsm_lab.replay.findings import model_preset
from kubedsm_lab.replay.hpa.tables import TABLES, answer, by_policy, rankings, recovery
from kubedsm_lab.replay.hpa.trial import LOOK, Outcome, Trial, play
from kubedsm_lab.replay.hpa.trial import Look as Sample
from kubedsm_lab.replay.plots import (
    Line,
    Look,
    Panel,
    assign_looks,
    plot_key,
    plot_lines,
    render_picture,
)
from kubedsm_lab.replay.presets import REFERENCE
from kubedsm_lab.replay.published import PUBLISHED
from loadgen.recovery import FIND_SECONDS, HOLD_SECONDS, WINDOW_SECONDS

METHOD = (
    "A model, not a measurement: schedulers and autoscaler ran on an emulated cluster in virtual"
    " time, and what the clients see of the service there is computed"
)
#: compared scheduling policies; the last one places pods anywhere
CONTENDERS = (KUBEDSM, REFERENCE, CACHE_SCHEDULER, "random")
#: seconds that pods wait longer for their nodes: mean and p99 of the paper's bursts of 200 pods
#: under the default scheduler, and far beyond
LATER = (1.175, 2.673, 10.0, 30.0)
#: plotted seconds from the start of FIND, until the replicas are stable
_SHOWN = 180.0
#: plotted numbers of replicas, in colours that no policy has
_SERIES: Mapping[str, tuple[Look, Callable[[Sample], int]]] = {
    "desired": (Look(7, 4), lambda sample: sample.desired),
    "current": (Look(6, 2), lambda sample: sample.current),
    "pods": (Look(3, 1), lambda sample: sample.pods),
    "Ready": (Look(2, 0), lambda sample: sample.ready),
}


@attrs.frozen
class Plan:
    seeds: int
    contenders: Sequence[str] = CONTENDERS
    later: Sequence[float] = LATER

    def list_trials(self) -> list[Trial]:
        """Return all trials of the plan: each policy with normal and with instant scheduling, and
        kube-scheduler with pods scheduled later.
        """
        kinds = [
            *((policy, 0.0) for policy in self.contenders),
            *((policy, None) for policy in self.contenders),
            *((REFERENCE, later) for later in self.later),
        ]
        return [
            Trial(policy, seed, later)
            for policy, later in kinds
            for seed in range(1, self.seeds + 1)
        ]


def draw_pictures(outcomes: Sequence[Outcome]) -> dict[str, bytes]:
    """Return the autoscaler experiment's plots as SVG files by name."""
    plain = by_policy(outcomes)
    return {
        "replicas-over-time.svg": render_picture(
            "Replicas over time",
            "The median over the seeds, shaded from the least to the most; seconds from FIND's"
            f" start, HOLD begins at the dotted line. {METHOD}.",
            _plot_replicas(plain),
        ),
        "time-to-recover.svg": render_picture(
            "Time to recover",
            "Share of seeds that have recovered, by windows of HOLD; dotted lines: published runs."
            f" {METHOD}.",
            _plot_recoveries(plain),
        ),
    }


def _plot_replicas(plain: Mapping[str, list[Outcome]]) -> list[Panel]:
    moments = [LOOK * number for number in range(int(_SHOWN / LOOK) + 1)]
    panels = [plot_key("replicas", {name: look for name, (look, _) in _SERIES.items()})]
    for policy, outcomes in plain.items():
        samples = [[_sample_at(each, moment) for each in outcomes] for moment in moments]
        lines = []
        for name, (look, replicas) in _SERIES.items():
            values = [[replicas(sample) for sample in each] for each in samples]
            medians = [
                (moment, statistics.median(each))
                for moment, each in zip(moments, values, strict=True)
            ]
            band = [(min(each), max(each)) for each in values]
            lines.append(Line(name, look, medians, band, steps=True))
        marks = {"HOLD": FIND_SECONDS}
        across = "s from FIND's start"
        panels.append(plot_lines(policy, lines, across, "", over=_SHOWN, marks=marks))
    return panels


def _sample_at(outcome: Outcome, moment: float) -> Sample:
    return next(sample for sample in reversed(outcome.looks) if sample.at <= moment)


def _plot_recoveries(plain: Mapping[str, list[Outcome]]) -> list[Panel]:
    windows = range(int(HOLD_SECONDS / WINDOW_SECONDS) + 1)
    looks, lines = assign_looks(plain), []
    for policy, outcomes in plain.items():
        times = [recovery(each) / WINDOW_SECONDS for each in outcomes]
        shares = [(n, sum(time <= n for time in times) / len(times)) for n in windows]
        lines.append(Line(policy, looks[policy], shares, steps=True))
    marks = {name: run.ttr / PUBLISHED.hpa.window for name, run in PUBLISHED.hpa.runs.items()}
    over = math.ceil(1.3 * max(marks.values()))
    across = "windows from HOLD's start"
    panel = plot_lines("share of seeds", lines, across, "", over=over, top=1.02, marks=marks)
    return [plot_key("schedulers", looks), panel]


PRESET = model_preset(
    "hpa",
    Plan(seeds=20),
    Plan(seeds=50),
    Plan.list_trials,
    play,
    list,
    method=lambda plan: f"{METHOD}; seeds: {plan.seeds}",
    answer=answer,
    tables=TABLES,
    rankings=rankings,
    draw=draw_pictures,
)
