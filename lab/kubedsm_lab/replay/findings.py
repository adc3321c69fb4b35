"""Results of preset experiments, in the form shown by `kubedsm replay` and `kubedsm compare`.

An experiment has a plan, runs its trials in several processes, and derives results from the
outcomes.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar

import attrs
import msgspec

from kubedsm.terminal.echo import echo
from kubedsm_lab.replay.page import Pictures, write_report
from kubedsm_lab.replay.provenance import render_report
from kubedsm_lab.replay.rankings import Ranking
from kubedsm_lab.replay.runner import Workers, run_all
from kubedsm_lab.replay.tables import Section, Table, as_markdown, fill_sections, mean

MODELLED = "**Emulated, and modelled**: nothing here was measured on a real cluster."
T = TypeVar("T")
S = TypeVar("S")


class _Tried(Protocol):
    @property
    def trial(self) -> Any:
        """Return the parameters of the trial to which these results belong."""


Outcome = TypeVar("Outcome", bound=_Tried)
P = TypeVar("P", bound=attrs.AttrsInstance)


@attrs.frozen
class Findings:
    """Results of an experiment: method, tables, rankings, and measurements as JSON."""

    #: method and size of the experiment
    method: str
    sections: Sequence[Section]
    #: JSON
    results: bytes
    #: ranking of the policies, measurement by measurement, for `kubedsm compare`
    rankings: Sequence[Ranking] = ()
    #: result in one sentence, and origin of the measurements, for `kubedsm replay`
    answer: str = ""
    origin: str = ""
    #: draws the plots as SVG files, which imports matplotlib
    draw: Callable[[], Pictures] = dict

    def publish(self, name: str, out: Path | None, output: str) -> None:
        """Print the results; with a directory, also write a report. Raises OSError."""
        tables = as_markdown(self.sections, self.method)
        text = render_report(self.answer, self.origin, tables)
        echo(self.results.decode() if output == "json" else text, nl=False)
        if out is not None:
            title = f"kubedsm replay --preset {name}"
            write_report(out, title, text, self.results, self.draw())


@attrs.frozen
class Preset(Generic[P]):
    """Experiment of `kubedsm replay --preset`: a short plan, a full plan, and the function that
    runs a plan.
    """

    short: P
    full: P
    #: runs a plan in several processes
    run: Callable[[P, Workers], Findings]


def model_preset(
    name: str,
    short: P,
    full: P,
    trials: Callable[[P], Sequence[T]],
    play: Callable[[T], Outcome],
    select: Callable[[Sequence[Outcome]], S],
    *,
    method: Callable[[P], str],
    answer: Callable[[S], str],
    tables: Mapping[str, Callable[[S], Table]],
    rankings: Callable[[S], Sequence[Ranking]] = lambda _: (),
) -> Preset[P]:
    """Return the preset of a modelled experiment, which plays the trials of a plan, and derives its
    results from what `select` makes of all outcomes.

    `name` selects the descriptions of the tables in WORDS.
    """

    def run(plan: P, workers: Workers) -> Findings:
        done = run_all(name, play, trials(plan), workers)
        results = {"emulated": True, "modelled": True, "trials": done}
        tried = select(done)
        return Findings(
            answer=answer(tried),
            origin=MODELLED,
            method=method(plan),
            sections=fill_sections(name, tables, tried),
            rankings=rankings(tried),
            results=msgspec.json.encode(results) + b"\n",
        )

    return Preset(short, full, run)


def select_trials(outcomes: Iterable[Outcome], **chosen: object) -> list[Outcome]:
    """Return the results of the trials whose parameters have the given values."""
    return [
        each
        for each in outcomes
        if all(getattr(each.trial, name) == value for name, value in chosen.items())
    ]


@attrs.frozen
class Selection(Generic[Outcome]):
    """Results of selected trials, with means over the selection."""

    outcomes: Sequence[Outcome]

    def select(self, **chosen: object) -> Self:
        return attrs.evolve(self, outcomes=select_trials(self.outcomes, **chosen))

    @property
    def contenders(self) -> list[str]:
        return list(dict.fromkeys(each.trial.contender for each in self.outcomes))

    def mean(self, figure: str) -> float | None:
        """Return the mean of an attribute of the outcomes; None without outcomes."""
        return mean(getattr(each, figure) for each in self.outcomes)
