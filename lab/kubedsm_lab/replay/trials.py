"""Trials of an experiment that has a model in it: played, picked out, and told of in one way."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar

import attrs
import msgspec

from kubedsm.terminal.echo import echo
from kubedsm.terminal.whole_files import folder_for
from kubedsm_lab.replay.files import Pictures, put, put_page
from kubedsm_lab.replay.progress import progress
from kubedsm_lab.replay.provenance import Provenance, told, typed
from kubedsm_lab.replay.runner import processors, spread
from kubedsm_lab.replay.sections import Section, as_markdown

_MODELLED = "**Emulated, and modelled**: nothing here was measured on a real cluster."

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class _Tried(Protocol):
    @property
    def trial(self) -> Any:
        """What was tried."""


Outcome = TypeVar("Outcome", bound=_Tried)


def of_trials(outcomes: Sequence[Outcome], **chosen: object) -> list[Outcome]:
    """Those of the trials that have these."""
    return [
        each
        for each in outcomes
        if all(getattr(each.trial, name) == value for name, value in chosen.items())
    ]


def as_json(done: Sequence[_Tried]) -> bytes:
    """The same wherever and whenever it is made."""
    return msgspec.json.encode({"emulated": True, "modelled": True, "trials": done}) + b"\n"


class Plan(Protocol[T_co]):
    """Which trials there are."""

    @property
    def all(self) -> Sequence[T_co]: ...

    @property
    def about(self) -> str:
        """How many there are of each kind."""

    def times(self, number: int) -> Self:
        """The same with so many of each kind."""


@attrs.frozen
class Preset(Generic[T, Outcome]):
    """Of `kubedsm replay`: an experiment that has a model in it."""

    name: str
    short: Plan[T]
    full: Plan[T]
    play: Callable[[T], Outcome]
    #: what is modelled
    how: str
    sections: Sequence[Section[Outcome]]
    draw: Callable[[Sequence[Outcome]], Pictures]
    #: what it comes to, in a sentence
    answer: Callable[[Sequence[Outcome]], str]
    #: who has a colour
    contenders: Callable[[Sequence[Outcome]], Iterable[str]]

    def run(
        self, number: int | None, full: bool, jobs: int | None, out: Path | None, output: str
    ) -> None:
        """Carry it out and tell of it, on stdout and in a folder that is made. Raises OSError.

        number: of trials of each kind, unless as many as usual.
        """
        usual = self.full if full else self.short
        planned = usual if number is None else usual.times(number)
        if out is not None:
            folder_for(out)
        done = self.carried_out(planned, jobs or processors())
        made, found = as_markdown(self.sections, done, self.about(planned)), as_json(done)
        text = told(self.answer(done), Provenance(typed(), _MODELLED), made)
        echo(found.decode() if output == "json" else text, nl=False)
        if out is not None:
            put(out, found, text)
            title = f"kubedsm replay --preset {self.name}"
            put_page(out, title, text, self.draw(done), self.contenders(done))

    def carried_out(self, planned: Plan[T], jobs: int) -> list[Outcome]:
        """What comes of each. jobs: processes."""
        trials = planned.all
        return list(progress(self.name, spread(self.play, trials, jobs), len(trials)))

    def about(self, planned: Plan[T]) -> str:
        return f"{self.how}; {planned.about}"
