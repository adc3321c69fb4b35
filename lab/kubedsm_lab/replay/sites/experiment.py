"""`kubedsm replay --preset sites`: trials, and tables of docs/explanation/site-demand.md."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product, starmap

import attrs

from kubedsm_lab.baselines.registry import KUBEDSM
from kubedsm_lab.replay.findings import Selection, model_preset
from kubedsm_lab.replay.sites.trial import CONTENDERS, OURS, ZONE_SPREAD, Outcome, Trial, play
from kubedsm_lab.replay.tables import Table, mean, number, with_interval

METHOD = (
    "A model, not a measurement: the scheduler ran on an emulated cluster in virtual time, and the"
    " places that serve requests are computed from its Ready pods"
)


@attrs.frozen
class Plan:
    """Settings of the multi-site experiment: numbers of sites, ratios of peak to trough, and
    seeds.
    """

    sites: Sequence[int]
    peaks: Sequence[float]
    seeds: int

    def list_trials(self) -> list[Trial]:
        seeds = range(1, self.seeds + 1)
        return list(starmap(Trial, product(self.sites, self.peaks, CONTENDERS, seeds)))


@attrs.frozen
class Tried(Selection[Outcome]):
    """Selected results of the multi-site experiment's trials, with means over the selection."""

    @property
    def settings(self) -> Mapping[str, "Tried"]:
        """Return the results of each setting by its name."""
        tried = dict.fromkeys((each.trial.sites, each.trial.peak) for each in self.outcomes)
        return {
            f"{sites} sites, peak {peak:g}:1": self.select(sites=sites, peak=peak)
            for sites, peak in tried
        }

    def list_values(self, figure: str) -> list[float]:
        return [getattr(each, figure) for each in self.outcomes]

    def lower(self, other: str, figure: str = "response_ms") -> list[float]:
        """Return by how many percent our mean response time, or its lower bound, is below another
        contender's, for each trial of both.
        """
        theirs = {
            (of.sites, of.peak, of.seed): each.response_ms
            for each in self.select(contender=other).outcomes
            for of in (each.trial,)
        }
        return [
            100 * (1 - getattr(each, figure) / theirs[key])
            for each in self.select(contender=OURS).outcomes
            for key in ((each.trial.sites, each.trial.peak, each.trial.seed),)
            if key in theirs
        ]


def _tabulate_overview(tried: Tried) -> Table:
    lines = [
        [
            name,
            with_interval(here.select(contender=OURS).list_values("near"), 3),
            with_interval(here.select(contender=OURS).list_values("reached"), 3),
            with_interval(here.lower(ZONE_SPREAD), 1),
            with_interval(here.lower(ZONE_SPREAD, "best_ms"), 1),
            with_interval(here.lower(KUBEDSM), 1),
            with_interval(here.lower(KUBEDSM, "best_ms"), 1),
        ]
        for name, here in tried.settings.items()
    ]
    headings = ["% below zone spread", "at best", "% below kubedsm", "at best"]
    return ["", "near", "of the optimum", *headings], lines


def _tabulate(figure: str, digits: int, tried: Tried) -> Table:
    """Return a table of one figure: settings by contenders, means over the trials with their
    intervals.
    """
    names = tried.contenders
    lines = [
        [
            name,
            *(
                with_interval(here.select(contender=each).list_values(figure), digits)
                for each in names
            ),
        ]
        for name, here in tried.settings.items()
    ]
    return ["", *names], lines


TABLES: Mapping[str, Callable[[Tried], Table]] = {
    "At a glance": _tabulate_overview,
    "Requests served at their own site": partial(_tabulate, "near", 3),
    "Part of the optimum": partial(_tabulate, "reached", 3),
    "Mean response time in ms": partial(_tabulate, "response_ms", 1),
    "Requests served at another site": partial(_tabulate, "elsewhere", 3),
    "Requests served in the cloud": partial(_tabulate, "cloud", 3),
    "Requests to overloaded pods": partial(_tabulate, "overload", 3),
    "Migrations per hour": partial(_tabulate, "migrations_per_hour", 1),
    "Lost pod-seconds": partial(_tabulate, "lost_pod_seconds", 1),
}


def answer(tried: Tried) -> str:
    """Return the result in one sentence."""
    ours = tried.select(contender=OURS)
    reached = [here.mean("reached") or 0.0 for here in ours.settings.values()]
    return (
        f"With demand by site, KubeDSM served {ours.mean('near'):.0%} of the requests at their own"
        f" site: at least {min(reached):.1%} of the optimum in each setting; mean response time"
        f" {ours.mean('response_ms'):.1f} ms, {number(mean(tried.lower(ZONE_SPREAD)), 1)} % below"
        f" {ZONE_SPREAD}."
    )


PRESET = model_preset(
    "sites",
    Plan((5, 10, 20), (3.0,), seeds=1),
    Plan((5, 10, 20), (1.0, 3.0, 6.0), seeds=5),
    Plan.list_trials,
    play,
    Tried,
    method=lambda plan: f"{METHOD}; trials of each kind: {plan.seeds}, of one day",
    answer=answer,
    tables=TABLES,
)
