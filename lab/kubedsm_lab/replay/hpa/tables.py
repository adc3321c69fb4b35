"""The tables of docs/hpa.md: what came of all trials, beside what was published."""

import math
import statistics
from collections.abc import Callable, Iterable, Sequence

from kubedsm_lab.baselines.registry import KUBEDSM
from kubedsm_lab.replay.hpa.figures import Times, chance_of_apart, recoveries, recovery
from kubedsm_lab.replay.hpa.plan import REFERENCE
from kubedsm_lab.replay.hpa.published import RISES, TABLE_4, WANTS_ALL, WINDOW
from kubedsm_lab.replay.hpa.service import DEMAND
from kubedsm_lab.replay.hpa.trial import Outcome, Start
from kubedsm_lab.replay.report import number
from kubedsm_lab.replay.sections import Section, Table
from kubedsm_lab.replay.standings import Standing
from kubedsm_lab.replay.trials import of_trials
from loadgen.measures import nearest_rank
from loadgen.recovery import HOLD_SECONDS, WINDOW_SECONDS

MODELLED = (
    "A model, not a measurement: schedulers and autoscaler ran on an emulated cluster in virtual"
    " time, and what the clients see of the service there is computed"
)
#: of all four published runs
_ALL = "published, all four"
_TTRS = [run.ttr for run in TABLE_4.values()]

Outcomes = Sequence[Outcome]
Figure = Callable[[Outcome], float | None]


def as_they_are(outcomes: Outcomes) -> dict[str, list[Outcome]]:
    """By policy, those of which nothing was made slower or faster."""
    plain = of_trials(outcomes, later=0.0, demand=DEMAND)
    policies = dict.fromkeys(each.trial.policy for each in plain)
    return {policy: of_trials(plain, policy=policy) for policy in policies}


def _mean(outcomes: Outcomes, figure: Figure) -> float | None:
    known = [value for value in map(figure, outcomes) if value is not None]
    return statistics.fmean(known) if known else None


def _times(outcomes: Outcomes, figure: Figure) -> Times:
    """What never happened is infinitely late."""
    return Times([math.inf if (v := figure(each)) is None else v for each in outcomes])


def _seconds(value: float) -> str:
    return f"> {HOLD_SECONDS:g}" if math.isinf(value) else f"{value:.0f}"


def _from_to(ends: tuple[float, float] | None) -> str:
    return "-" if ends is None else " to ".join(map(_seconds, ends))


def _range(values: Iterable[float], digits: int) -> str:
    known = list(values)
    return f"{min(known):.{digits}f} to {max(known):.{digits}f}"


#: heading, of an outcome, digits: what the clients saw
_SEEN: Sequence[tuple[str, Figure, int]] = (
    ("max p99, s", lambda one: one.max_p99, 2),
    ("mean p99, s", lambda one: one.mean_p99, 2),
    ("OK rate", lambda one: one.ok_rate, 2),
)


def _recovery(outcomes: Outcomes) -> Table:
    lines = []
    for policy, each in as_they_are(outcomes).items():
        times = recoveries(each)
        modes = [one.mode for one in each]
        lines.append(
            [
                policy,
                _seconds(times.median),
                _from_to(times.interval),
                f"{times.median / WINDOW_SECONDS:.1f}",
                str(modes.count("no_degradation")),
                str(modes.count("no_recovery_within_hold")),
                *(number(_mean(each, figure), digits) for _, figure, digits in _SEEN),
                _seconds(_times(each, lambda one: one.full).median),
            ]
        )
    for name, run in TABLE_4.items() if lines else ():
        seen = (f"{value:.2f}" for value in (run.max_p99, run.mean_p99, run.ok_rate))
        windows = f"{run.ttr / WINDOW:.1f}"
        named = f"published, {name}"
        lines.append([named, _seconds(run.ttr), "-", windows, "-", "-", *seen, _seconds(run.full)])
    headings = ["", "TTR, s", "95 %", "windows", "never bad", "never good again"]
    return [*headings, *(heading for heading, *_ in _SEEN), "20 Ready, s"], lines


def _chance(outcomes: Outcomes) -> Table:
    plain = as_they_are(outcomes)
    theirs = {each.trial.seed: recovery(each) for each in plain.get(REFERENCE, ())}
    # As many windows as theirs are apart, each of which took them longer.
    apart = round((max(_TTRS) - min(_TTRS)) / WINDOW) * WINDOW_SECONDS
    lines = []
    for policy, each in plain.items():
        times = recoveries(each)
        lines.append(
            [
                policy,
                str(max(one.most_on_a_node for one in each)),
                number(times.deviation, 0),
                _from_to((min(times.values), max(times.values))),
                *_beside(each, theirs),
                f"{chance_of_apart(times.values, len(_TTRS), apart):.2f}",
            ]
        )
    return [
        "",
        "most pods on a node",
        "deviation between seeds, s",
        "TTR, s",
        f"same TTR as {REFERENCE}",
        "mean difference, s",
        f"chance that four runs are {apart:g} s apart",
    ], lines


def _scheduling(outcomes: Outcomes) -> Table:
    of_this = of_trials(outcomes, demand=DEMAND)
    lines = []
    for policy, later in dict.fromkeys((o.trial.policy, o.trial.later) for o in of_this):
        instant = of_trials(of_this, policy=policy, later=None)
        if later is None or not instant:
            continue
        each = of_trials(of_this, policy=policy, later=later)
        waits = [start.scheduled for one in each for start in one.starts]
        longest = max((wait for wait in waits if wait is not None), default=None)
        lines.append(
            [
                f"{policy}, {later:g} s later" if later else policy,
                number(None if longest is None else longest + later, 2),
                _seconds(_times(each, lambda one: one.full).median),
                _seconds(recoveries(each).median),
                _from_to(recoveries(each).interval),
                *_beside(each, {one.trial.seed: recovery(one) for one in instant}),
            ]
        )
    headings = ["", "longest T_sched, s", "20 Ready, s", "TTR, s", "95 %"]
    return [*headings, "same TTR as in no time", "mean difference, s"], lines


def _beside(outcomes: Outcomes, others: dict[int, float]) -> tuple[str, str]:
    """For how many seeds the TTR is the same, and by how much it is longer in the mean."""
    pairs = [(recovery(o), others[o.trial.seed]) for o in outcomes if o.trial.seed in others]
    longer = [ours - theirs for ours, theirs in pairs if math.isfinite(ours + theirs)]
    same = sum(ours == theirs for ours, theirs in pairs)
    return f"{same} of {len(pairs)}", number(statistics.fmean(longer) if longer else None, 1)


#: of a pod
_STARTS: Sequence[tuple[str, Callable[[Start], float | None]]] = (
    ("T_sched", lambda pod: pod.scheduled),
    ("T_ready", lambda pod: pod.ready),
    ("T_startup", lambda pod: pod.startup),
)


def _starts(outcomes: Outcomes) -> Table:
    lines = []
    for policy, each in as_they_are(outcomes).items():
        pods = [pod for one in each for pod in one.starts]
        for what, seconds in _STARTS:
            ranked = sorted(value for value in map(seconds, pods) if value is not None)
            missing = len(pods) - len(ranked)
            middle = [nearest_rank(ranked, percent) for percent in (50, 90, 99)] if ranked else []
            shown = [f"{s:.3f}" for s in (*ranked[:1], *middle, *ranked[-1:])] or ["-"] * 5
            lines.append([f"{policy}, {what}", str(len(ranked)), str(missing), *shown])
    return ["seconds", "pods", "missing", "min", "p50", "p90", "p99", "max"], lines


#: heading, of an outcome, and from when to when it was in the published runs
_MOMENTS: Sequence[tuple[str, Figure, tuple[float, float]]] = (
    ("desired rises", lambda one: one.rises, RISES),
    ("desired is 20", lambda one: one.wants_all, WANTS_ALL),
    (
        "20 are Ready",
        lambda one: one.full,
        (min(run.full for run in TABLE_4.values()), max(run.full for run in TABLE_4.values())),
    ),
)


def _autoscaler(outcomes: Outcomes) -> Table:
    lines = []
    for policy, each in as_they_are(outcomes).items():
        moments = [_times(each, figure) for _, figure, _ in _MOMENTS]
        ends = (_from_to((min(each.values), max(each.values))) for each in moments)
        medians = (_seconds(each.median) for each in moments)
        lines.append([policy, *(f"{m} ({e})" for m, e in zip(medians, ends, strict=True))])
    if lines:
        lines.append([_ALL, *(_from_to(published) for *_, published in _MOMENTS)])
    return ["seconds from FIND's start", *(heading for heading, *_ in _MOMENTS)], lines


def _demands(outcomes: Outcomes) -> Table:
    plain = of_trials(outcomes, policy=REFERENCE, later=0.0)
    lines = []
    for demand in sorted({each.trial.demand for each in plain}):
        each = of_trials(plain, demand=demand)
        times = recoveries(each)
        seen = (number(_mean(each, figure), digits) for _, figure, digits in _SEEN)
        lines.append([f"{demand:g}", *seen, _seconds(times.median), _from_to(times.interval)])
    if lines:
        runs = TABLE_4.values()
        figures = ([r.max_p99 for r in runs], [r.mean_p99 for r in runs], [r.ok_rate for r in runs])
        lines.append([_ALL, *(_range(each, 2) for each in figures), _range(_TTRS, 0), "-"])
    headings = (heading for heading, *_ in _SEEN)
    return ["core-seconds of a request", *headings, "TTR, s", "95 %"], lines


SECTIONS: Sequence[Section[Outcome]] = (
    Section(
        "Time to recover",
        "The median over the seeds; between which of them that of all seeds is with 95 %, by order"
        " statistics; and how many windows it is. In how many trials no window of HOLD was bad"
        " (TTR 0), or none was good after a bad one. Means over the seeds of the greatest and of"
        " the mean p99 of the windows, and of the share of good ones; the median of when 20 pods"
        " were Ready, from FIND's start. Published are single runs.",
        _recovery,
    ),
    Section(
        "Chance or policy",
        "How far the TTRs of one policy's seeds are apart, and how far the policies are for the"
        " same seed. The chance is that of four trials of this policy the longest TTR is as many"
        " windows above the shortest as of the four that are published.",
        _chance,
    ),
    Section(
        "How much of it is scheduling",
        "Each seed beside the same one where scheduling takes no time; and with pods that get their"
        " nodes later, by as much as in the paper's bursts (mean and p99), and by more. T_sched"
        " is that of pods created after HOLD began.",
        _scheduling,
    ),
    Section(
        "Pods created after HOLD began",
        "From created to bound, from created to Ready, and from bound to Ready, of the pods of all"
        " seeds; percentiles by nearest rank.",
        _starts,
    ),
    Section(
        "The autoscaler",
        "Medians over the seeds, and from the first to the last, by looks every 5 s.",
        _autoscaler,
    ),
    Section(
        "Requests of another size",
        f"Under {REFERENCE}. A client that shares a pod with another waits for twice this over half"
        " a core.",
        _demands,
    ),
)


def answer(outcomes: Outcomes) -> str:
    medians = {name: recoveries(each).median for name, each in as_they_are(outcomes).items()}
    if KUBEDSM not in medians:
        return "KubeDSM was not tried."
    ours, theirs = (
        None if seconds is None else f"{_seconds(seconds)} s"
        for seconds in (medians[KUBEDSM], medians.get(REFERENCE))
    )
    seeds = len(as_they_are(outcomes)[KUBEDSM])
    of_seeds = f"median of {seeds} seeds" if seeds > 1 else "one seed"
    said = f"Under KubeDSM the service was well again after {ours}"
    if theirs is None:
        return f"{said} ({of_seeds})."
    if ours == theirs:
        return f"{said}, as soon as under {REFERENCE} ({of_seeds})."
    return f"{said}, under {REFERENCE} after {theirs} ({of_seeds})."


def standings(outcomes: Outcomes) -> list[Standing]:
    """Two TTRs are level within the wider of their intervals."""
    plain = as_they_are(outcomes)
    times = {policy: recoveries(each) for policy, each in plain.items()}
    medians = {policy: each.median for policy, each in times.items()}
    ends = [each.interval for each in times.values() if each.interval is not None]
    widest = max((end - start for start, end in ends), default=0.0)
    most = max((each for each in medians.values() if math.isfinite(each)), default=0.0)
    full = {p: _times(each, lambda one: one.full).median for p, each in plain.items()}
    rates = {p: statistics.fmean(one.ok_rate for one in each) for p, each in plain.items()}
    return [
        Standing(
            "time to recover, median",
            "s",
            less_is_better=True,
            values=_known(medians),
            noise=min(1.0, widest / most) if most else 0.0,
        ),
        Standing("windows that keep the SLA", "", less_is_better=False, values=rates, noise=0.05),
        Standing(
            "20 pods Ready, median", "s", less_is_better=True, values=_known(full), noise=0.05
        ),
    ]


def _known(medians: dict[str, float]) -> dict[str, float]:
    """Without what most seeds never came to."""
    return {policy: median for policy, median in medians.items() if math.isfinite(median)}
