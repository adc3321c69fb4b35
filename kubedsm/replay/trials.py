"""Trials of an experiment that has a model in it: played, picked out, and told of in one way."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import click
import msgspec

from kubedsm.replay.files import Pictures, put, put_page
from kubedsm.replay.progress import progress
from kubedsm.replay.runner import spread
from kubedsm.replay.sections import Section, as_markdown

T = TypeVar("T")


class _Tried(Protocol):
    @property
    def trial(self) -> Any:
        """What was tried."""


Outcome = TypeVar("Outcome", bound=_Tried)


def played(
    experiment: str, play: Callable[[T], Outcome], trials: Sequence[T], jobs: int
) -> list[Outcome]:
    """What comes of each. jobs: processes."""
    return list(progress(experiment, spread(play, trials, jobs), len(trials)))


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


def tell(
    preset: str,
    sections: Sequence[Section[Outcome]],
    done: Sequence[Outcome],
    about: str,
    draw: Callable[[Sequence[Outcome]], Pictures],
    out: Path | None,
    output: str,
) -> None:
    """On stdout, and in a folder that is made. Raises OSError."""
    made, found = as_markdown(sections, done, about), as_json(done)
    click.echo(found if output == "json" else made, nl=False)
    if out is not None:
        put(out, found, made)
        put_page(out, f"kubedsm replay --preset {preset}", made, partial(draw, done))
