"""Tables of docs/explanation/hpa.md: all trials, next to the published measurements."""

import bisect
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from kubedsm_lab.baselines.registry import KUBEDSM
from kubedsm_lab.replay.findings import select_trials
from kubedsm_lab.replay.hpa.trial import Outcome, Start
from kubedsm_lab.replay.presets import REFERENCE
from kubedsm_lab.replay.published import PUBLISHED
from kubedsm_lab.replay.rankings import Ranking
from kubedsm_lab.replay.tables import (
    Table,
    bootstrap_interval,
    grid,
    mean,
    number,
)
from loadgen.measures import nearest_rank
from loadgen.recovery import HOLD_SECONDS, WINDOW_SECONDS

_ALL = "published, all four"
_RUNS = PUBLISHED.hpa.runs
_TTRS = [run.ttr for run in _RUNS.values()]

Outcomes = Sequence[Outcome]
Figure = Callable[[Outcome], float | None]


def list_times(outcomes: Outcomes, figure: Figure) -> list[float]:
    """Return the time of an event in each trial, in seconds; infinite without the event."""
    return [math.inf if (v := figure(each)) is None else v for each in outcomes]


def median_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the 95% confidence interval of the values' median by order statistics; None for too
    few values.

    Source: sign test, each value is below the median with probability 0.5.
    """
    number, outside, cut = len(values), 0.0, 0
    while cut < number / 2 and 2 * (outside + math.comb(number, cut) / 2**number) <= 1 - 0.95:
        outside += math.comb(number, cut) / 2**number
        cut += 1
    ranked = sorted(values)
    return (ranked[cut - 1], ranked[number - cut]) if cut else None


def chance_of_apart(values: Sequence[float], runs: int, apart: float) -> float:
    """Return the probability that `runs` values drawn at random from `values` have a range of
    `apart` seconds or more.

    The complement sums over the least value: all draws are below least + apart. Values above HOLD
    count as HOLD.
    """
    ranked = sorted(min(value, HOLD_SECONDS) for value in values)
    near = 0.0
    for least in sorted(set(ranked)):
        first, above = bisect.bisect_left(ranked, least), bisect.bisect_right(ranked, least)
        end = bisect.bisect_left(ranked, least + apart)
        near += ((end - first) / len(ranked)) ** runs - ((end - above) / len(ranked)) ** runs
    return 1 - near


def format_chance(values: Sequence[float], apart: float) -> str:
    """Return the chance that as many runs as published differ by `apart` seconds, with its 95 %
    bootstrap interval.
    """

    def chance(drawn: Sequence[float]) -> float:
        return chance_of_apart(drawn, len(_TTRS), apart)

    interval = bootstrap_interval(values, chance)
    shown = f"{chance(values):.2f}"
    return shown if interval is None else f"{shown} ({interval[0]:.2f} to {interval[1]:.2f})"


def recovery(outcome: Outcome) -> float:
    return outcome.seconds if outcome.mode != "no_recovery_within_hold" else math.inf


def recoveries(outcomes: Outcomes) -> list[float]:
    return list_times(outcomes, recovery)


def by_policy(outcomes: Outcomes) -> dict[str, list[Outcome]]:
    """Return the results of trials with normal scheduling, by policy."""
    plain = select_trials(outcomes, later=0.0)
    policies = dict.fromkeys(each.trial.policy for each in plain)
    return {policy: select_trials(plain, policy=policy) for policy in policies}


def _format_seconds(value: float) -> str:
    return f"> {HOLD_SECONDS:g}" if math.isinf(value) else f"{value:.0f}"


def _format_ends(ends: tuple[float, float] | None) -> str:
    return "-" if ends is None else " to ".join(map(_format_seconds, ends))


def _ends(values: Sequence[float]) -> tuple[float, float]:
    return min(values), max(values)


def _deviation(values: Sequence[float]) -> float | None:
    """Return the standard deviation; None for a single value or an infinite one."""
    known = len(values) > 1 and all(map(math.isfinite, values))
    return statistics.stdev(values) if known else None


def _format_median(outcomes: Outcomes, figure: Figure) -> str:
    return _format_seconds(statistics.median(list_times(outcomes, figure)))


def _count_mode(outcomes: Outcomes, mode: str) -> str:
    return str(sum(one.mode == mode for one in outcomes))


def _format_mean(outcomes: Outcomes, figure: Figure) -> str:
    return number(mean(map(figure, outcomes)), 2)


def _tabulate_recovery(outcomes: Outcomes) -> Table:
    headings, lines = grid(
        "",
        by_policy(outcomes),
        {
            "TTR, s": lambda each: _format_median(each, recovery),
            "95 %": lambda each: _format_ends(median_interval(recoveries(each))),
            "windows": lambda each: f"{statistics.median(recoveries(each)) / WINDOW_SECONDS:.1f}",
            "no bad window": partial(_count_mode, mode="no_degradation"),
            "no recovery": partial(_count_mode, mode="no_recovery_within_hold"),
            "max p99, s": partial(_format_mean, figure=lambda one: one.max_p99),
            "mean p99, s": partial(_format_mean, figure=lambda one: one.mean_p99),
            "OK rate": partial(_format_mean, figure=lambda one: one.ok_rate),
            "20 Ready, s": partial(_format_median, figure=lambda one: one.full),
        },
    )
    published = [
        [
            f"published, {name}",
            _format_seconds(run.ttr),
            "-",
            f"{run.ttr / PUBLISHED.hpa.window:.1f}",
            "-",
            "-",
            *(f"{value:.2f}" for value in (run.max_p99, run.mean_p99, run.ok_rate)),
            _format_seconds(run.full),
        ]
        for name, run in _RUNS.items()
    ]
    return headings, [*lines, *published] if lines else []


def _tabulate_chance(outcomes: Outcomes) -> Table:
    plain = by_policy(outcomes)
    theirs = {each.trial.seed: recovery(each) for each in plain.get(REFERENCE, ())}
    # The published runs differ by this number of windows.
    apart = round((max(_TTRS) - min(_TTRS)) / PUBLISHED.hpa.window) * WINDOW_SECONDS

    return grid(
        "",
        plain,
        {
            "most pods on a node": lambda each: str(max(one.most_on_a_node for one in each)),
            "deviation between seeds, s": lambda each: number(_deviation(recoveries(each)), 0),
            "TTR, s": lambda each: _format_ends(_ends(recoveries(each))),
            f"same TTR as {REFERENCE}": lambda each: _count_equal(each, theirs),
            "mean difference, s": lambda each: _mean_difference(each, theirs),
            f"chance that four runs are {apart:g} s apart": lambda each: format_chance(
                recoveries(each), apart
            ),
        },
    )


def _tabulate_scheduling(outcomes: Outcomes) -> Table:
    lines = []
    for policy, later in dict.fromkeys((o.trial.policy, o.trial.later) for o in outcomes):
        instant = select_trials(outcomes, policy=policy, later=None)
        if later is None or not instant:
            continue
        each = select_trials(outcomes, policy=policy, later=later)
        waits = [start.scheduled for one in each for start in one.starts]
        longest = max((wait for wait in waits if wait is not None), default=None)
        base = {one.trial.seed: recovery(one) for one in instant}
        lines.append(
            [
                f"{policy}, {later:g} s later" if later else policy,
                number(None if longest is None else longest + later, 2),
                _format_median(each, lambda one: one.full),
                _format_median(each, recovery),
                _format_ends(median_interval(recoveries(each))),
                _count_equal(each, base),
                _mean_difference(each, base),
            ]
        )
    headings = ["", "longest T_sched, s", "20 Ready, s", "TTR, s", "95 %"]
    return [*headings, "same TTR as without delay", "mean difference, s"], lines


def _pair_seeds(outcomes: Outcomes, others: Mapping[int, float]) -> list[tuple[float, float]]:
    """Return pairs of times to recover in seconds: this outcome's and that in `others` with the
    same seed.
    """
    return [(recovery(o), others[o.trial.seed]) for o in outcomes if o.trial.seed in others]


def _count_equal(outcomes: Outcomes, others: Mapping[int, float]) -> str:
    pairs = _pair_seeds(outcomes, others)
    return f"{sum(ours == theirs for ours, theirs in pairs)} of {len(pairs)}"


def _mean_difference(outcomes: Outcomes, others: Mapping[int, float]) -> str:
    pairs = _pair_seeds(outcomes, others)
    return number(mean(one - other for one, other in pairs if math.isfinite(one + other)), 1)


_STARTS: Mapping[str, Callable[[Start], float | None]] = {
    "T_sched": lambda pod: pod.scheduled,
    "T_ready": lambda pod: pod.ready,
    "T_startup": lambda pod: pod.startup,
}


def _tabulate_starts(outcomes: Outcomes) -> Table:
    lines = []
    for policy, each in by_policy(outcomes).items():
        pods = [pod for one in each for pod in one.starts]
        for what, seconds in _STARTS.items():
            ranked = sorted(value for value in map(seconds, pods) if value is not None)
            missing = len(pods) - len(ranked)
            middle = [nearest_rank(ranked, percent) for percent in (50, 90, 99)] if ranked else []
            shown = [f"{s:.3f}" for s in (*ranked[:1], *middle, *ranked[-1:])] or ["-"] * 5
            lines.append([f"{policy}, {what}", str(len(ranked)), str(missing), *shown])
    return ["seconds", "pods", "missing", "min", "p50", "p90", "p99", "max"], lines


def _tabulate_autoscaler(outcomes: Outcomes) -> Table:
    def moment(each: Outcomes, figure: Figure) -> str:
        return f"{_format_median(each, figure)} ({_format_ends(_ends(list_times(each, figure)))})"

    headings, lines = grid(
        "seconds from FIND's start",
        by_policy(outcomes),
        {
            "desired rises": partial(moment, figure=lambda one: one.rises),
            "desired is 20": partial(moment, figure=lambda one: one.wants_all),
            "20 are Ready": partial(moment, figure=lambda one: one.full),
        },
    )
    full = [run.full for run in _RUNS.values()]
    published = map(_format_ends, (PUBLISHED.hpa.rises, PUBLISHED.hpa.wants_all, _ends(full)))
    return headings, [*lines, [_ALL, *published]] if lines else []


TABLES: Mapping[str, Callable[[Outcomes], Table]] = {
    "Time to recover": _tabulate_recovery,
    "Variation between seeds and policies": _tabulate_chance,
    "Effect of scheduling delay": _tabulate_scheduling,
    "Pods created after HOLD began": _tabulate_starts,
    "The autoscaler": _tabulate_autoscaler,
}


def answer(outcomes: Outcomes) -> str:
    medians = {
        name: statistics.median(recoveries(each)) for name, each in by_policy(outcomes).items()
    }
    ours, theirs = (
        None if seconds is None else f"{_format_seconds(seconds)} s"
        for seconds in (medians[KUBEDSM], medians.get(REFERENCE))
    )
    seeds = len(by_policy(outcomes)[KUBEDSM])
    of_seeds = f"median of {seeds} seeds" if seeds > 1 else "one seed"
    said = f"Under KubeDSM the service was well again after {ours}"
    if theirs is None:
        return f"{said} ({of_seeds})."
    if ours == theirs:
        return f"{said}, as soon as under {REFERENCE} ({of_seeds})."
    return f"{said}, under {REFERENCE} after {theirs} ({of_seeds})."


def rankings(outcomes: Outcomes) -> list[Ranking]:
    """Rank the policies by measurement; times to recover within the widest confidence interval
    count as equal.
    """
    plain = by_policy(outcomes)
    times = {policy: recoveries(each) for policy, each in plain.items()}
    medians = _select_finite({policy: statistics.median(each) for policy, each in times.items()})
    ends = [ends for each in times.values() if (ends := median_interval(each)) is not None]
    widest = max((end - start for start, end in ends), default=0.0)
    most = max(medians.values(), default=0.0)
    noise = min(1.0, widest / most) if most else 0.0
    full = {
        policy: statistics.median(list_times(each, lambda one: one.full))
        for policy, each in plain.items()
    }
    rates = {
        policy: statistics.fmean(one.ok_rate for one in each) for policy, each in plain.items()
    }
    return [
        Ranking("time to recover, median", "s", True, medians, noise),
        Ranking("windows that keep the SLA", "", less_is_better=False, values=rates, noise=0.05),
        Ranking("20 pods Ready, median", "s", True, _select_finite(full), 0.05),
    ]


def _select_finite(medians: Mapping[str, float]) -> dict[str, float]:
    """Return the finite median times by policy: those of events that occurred in most trials."""
    return {policy: median for policy, median in medians.items() if math.isfinite(median)}
