"""An experiment: what it is about, what can be asked of it, and what comes of it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import attrs
import msgspec

from kubedsm_lab.replay.files import Pictures
from kubedsm_lab.replay.sections import Made, Section
from kubedsm_lab.replay.standings import Standing

#: a section before or after it is given results
S = TypeVar("S", bound=Section[Any] | Made)


@attrs.frozen
class Asked:
    #: as the documents have it; else as much as a look takes
    full: bool
    #: processes
    jobs: int
    #: KubeDSM first; none: those that the experiment has by itself
    policies: Sequence[str] = ()


def of_titles(sections: Sequence[S], titles: Sequence[str]) -> list[S]:
    """Those of the titles, in that order. Raises KeyError if there is none of one."""
    by_title = {one.title: one for one in sections}
    return [by_title[title] for title in titles]


class Part(msgspec.Struct, frozen=True, rename="camel"):
    """What came of an experiment, as it is kept and shown."""

    full: bool
    #: how it was run: on what, and how often
    about: str
    standings: Sequence[Standing]
    tables: Sequence[Made]
    #: its own results: JSON
    results: msgspec.Raw
    #: files beside
    pictures: Sequence[str] = ()


@attrs.frozen
class Found:
    part: Part
    #: of the part, by the names that it has them by
    pictures: Pictures = attrs.field(factory=dict)


@attrs.frozen
class Experiment:
    #: what it is about is said in about/NAME.md
    name: str
    title: str
    #: which of emulated, modelled and computed it is
    how: str
    #: by how a figure's name begins, where KubeDSM may be behind: why
    reasons: Mapping[str, str]
    run: Callable[[Asked], Found]
    #: that can be chosen; none if they are part of the experiment
    policies: Sequence[str] = ()
