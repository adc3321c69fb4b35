"""A mirror that passes on what it is told, so that another one is kept that is always its equal.

What is passed on are the calls that change it, in their order; and, for one that begins later, the
calls that make a mirror like it.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from kubedsm.model.events import KindKnown, NodeApplied, PodApplied, SurroundingApplied
from kubedsm.model.measured import Measured
from kubedsm.model.mirror import ClusterMirror, ReplacementClaim, Reservation
from kubedsm.model.model import Uid

P = ParamSpec("P")
R = TypeVar("R")


class Call(NamedTuple):
    """A call that changed a mirror, for another one to be changed by."""

    method: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    def made(self, mirror: "ToldMirror") -> None:
        getattr(mirror, self.method)(*self.args, **self.kwargs)


def _told(
    method: Callable[Concatenate[ClusterMirror, P], R],
) -> Callable[Concatenate["ToldMirror", P], R]:
    """The method, which tells of each call that did not fail; not of those inside of it."""

    @wraps(method)
    def telling(mirror: "ToldMirror", /, *args: P.args, **kwargs: P.kwargs) -> R:
        tell, mirror.tell = mirror.tell, None
        try:
            result = method(mirror, *args, **kwargs)
        finally:
            mirror.tell = tell
        if tell is not None:
            tell(Call(method.__name__, args, kwargs))
        return result

    return telling


class ToldMirror(ClusterMirror):
    """Who hears of its calls is set while there is somebody."""

    tell: Callable[[Call], None] | None = None

    apply = _told(ClusterMirror.apply)
    reserve = _told(ClusterMirror.reserve)
    release = _told(ClusterMirror.release)
    hand_over = _told(ClusterMirror.hand_over)
    nominate = _told(ClusterMirror.nominate)
    withdraw = _told(ClusterMirror.withdraw)
    claim = _told(ClusterMirror.claim)
    unclaim = _told(ClusterMirror.unclaim)

    def retold(self) -> Iterator[Call]:
        """The calls that make a new mirror like this one is now, whatever it is told meanwhile."""
        seen = self._books.snapshot(self._surroundings, 0.0)
        held = (dict(self._reservations), dict(self._claims), dict(self._claimed))
        last = Call("take_over", (*held, self._measured, self.changes), {})

        def calls() -> Iterator[Call]:
            for kind, things in seen.surroundings.known():
                yield _event(KindKnown(kind))
                yield from (_event(SurroundingApplied(thing)) for thing in things)
            yield from (_event(NodeApplied(node)) for node in seen.nodes.values())
            yield from (_event(PodApplied(pod)) for pod in seen.pods.values())
            yield last

        return calls()

    def take_over(
        self,
        reservations: Mapping[str, Reservation],
        claims: Mapping[str, ReplacementClaim],
        claimed: Mapping[Uid, str],
        measured: Measured,
        changes: int,
    ) -> None:
        """Of a new mirror: hold, claim and know all this, and count on from there."""
        for reservation in reservations.values():
            self._hold(reservation)
        self._claims, self._claimed, self.changes = dict(claims), dict(claimed), changes
        self._measured = measured


def _event(event: Any) -> Call:
    return Call("apply", (event,), {})
