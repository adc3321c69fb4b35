"""Did it help? What each move was to bring its service, and what it brought, as it is measured.

Compared are the sample before the move began and the first one that lies wholly after its end.
That tells of the move only if nothing else happened to the service meanwhile: as many pods, and no
other move of any. Otherwise it is said why nothing can be told.
"""

from collections.abc import Iterator

import attrs
import structlog

from kubedsm.clock import Clock
from kubedsm.configuration.current import CurrentConfiguration
from kubedsm.core.goals.response_times import ResponseTimes
from kubedsm.core.world.change import Change
from kubedsm.core.world.measured import Measured
from kubedsm.core.world.model import NodeName, Share, Tier, Workload
from kubedsm.core.world.snapshot import Snapshot
from kubedsm.runtime.listener import Listener
from kubedsm.why.effects import Effect, Response, expected
from kubedsm.why.entries import MoveOutcome, Outcome
from kubedsm.why.explainer import Decisions

log = structlog.get_logger()

#: why nothing can be told
NOT_MEASURED = "no response times of it are measured"
TOO_FEW = "too few requests to tell"
OTHER_MOVES = "others of its pods were moved at that time"
SCALED = "scaled from {} to {} meanwhile"
#: said until it is known
AWAITED = "the sample after it is awaited"


@attrs.define(slots=True)
class _Watched:
    """A move that has begun."""

    move: MoveOutcome
    sample: Measured
    pods: int
    effect: Effect
    #: seconds since the epoch; None while it is under way
    ended_at: float | None = None

    @property
    def workload(self) -> Workload:
        return self.move.move.pod.workload


@attrs.define
class MoveEffects:
    """The one owner of what is not told yet; of what is, the record."""

    _decisions: Decisions
    _clock: Clock
    _configuration: CurrentConfiguration
    _listener: Listener
    #: by move: those under way, and one of each workload that ended and is not told yet
    _watched: dict[str, _Watched] = attrs.field(factory=dict, init=False)
    #: when a move of these ended last, if that is not long ago
    _ended: dict[Workload, float] = attrs.field(factory=dict, init=False)

    def begun(self, move: MoveOutcome) -> None:
        """A move begins, its pod still where it was."""
        snapshot, workload = self._decisions.mirror.snapshot(), move.move.pod.workload
        sample, share = snapshot.measured, snapshot.shares().get(workload, Share())
        self._forget_long_ended()
        others = list(self._of(workload))
        for other in others:
            self._cannot_tell(other, OTHER_MOVES)
        untold = AWAITED
        if why := _not_told(sample, workload):
            untold = why
        elif others or self._ended.get(workload, 0.0) > sample.answered - sample.window:
            untold = OTHER_MOVES
        times = _believed(sample, workload, self._configuration.current.latency.times)
        more = _change_of_share(snapshot, move)
        effect = Effect(expected(times, share, more), untold=untold)
        self._watched[move.id] = _Watched(move, sample, share.total, effect)

    def ended(self, move: MoveOutcome) -> MoveOutcome:
        """A move is over: the same with its effect, as far as it is known."""
        watched = self._watched.get(move.id)
        if watched is None:
            return move
        now = self._ended[watched.workload] = self._clock.wall()
        if move.outcome is not Outcome.COMPLETED:
            del self._watched[move.id]
            return move
        watched.move, watched.ended_at = move, now
        self._look_at_pods(watched)
        if watched.effect.untold != AWAITED:
            self._told(watched)
        return attrs.evolve(move, effect=watched.effect)

    def observe(self, change: Change) -> None:
        """Tell what a new sample tells."""
        sample = change.measured_after
        if sample is None:
            return
        for watched in [each for each in self._watched.values() if each.ended_at is not None]:
            self._look_at_pods(watched)
            self._measure(watched, sample)
            if watched.effect.untold != AWAITED:
                self._told(watched)
                self._decisions.record.move_helped(watched.move.id, watched.effect)

    def _measure(self, watched: _Watched, sample: Measured) -> None:
        if watched.effect.untold != AWAITED or watched.ended_at is None:
            return
        if sample.at and sample.answered - sample.window < watched.ended_at:
            return
        if why := _not_told(sample, watched.workload):
            self._cannot_tell(watched, why)
            return
        before, after = (
            Response.of(of.answers[watched.workload]) for of in (watched.sample, sample)
        )
        watched.effect = attrs.evolve(watched.effect, measured=(before, after), untold="")

    def _look_at_pods(self, watched: _Watched) -> None:
        pods = self._decisions.mirror.snapshot().shares().get(watched.workload, Share()).total
        if pods != watched.pods:
            self._cannot_tell(watched, SCALED.format(watched.pods, pods))

    def _cannot_tell(self, watched: _Watched, why: str) -> None:
        if watched.effect.untold == AWAITED:
            watched.effect = attrs.evolve(watched.effect, untold=why)

    def _told(self, watched: _Watched) -> None:
        move, effect = self._watched.pop(watched.move.id).move, watched.effect
        if effect.measured is not None:
            log.info("move judged", pod=str(move.move.pod), effect=str(effect))
        self._listener.move_judged(move.move.kind, effect)

    def _of(self, workload: Workload) -> Iterator[_Watched]:
        return (each for each in self._watched.values() if each.workload == workload)

    def _forget_long_ended(self) -> None:
        oldest = self._clock.wall() - 2 * self._configuration.current.load_aware.window
        self._ended = {w: at for w, at in self._ended.items() if at > oldest}


def _not_told(sample: Measured, workload: Workload) -> str:
    """Why the sample does not tell what the workload answers in; empty if it does."""
    answers = sample.answers.get(workload)
    if not answers:
        return NOT_MEASURED
    return "" if sample.enough(sum(each.rate for each in answers.values())) else TOO_FEW


def _believed(sample: Measured, workload: Workload, configured: ResponseTimes) -> ResponseTimes:
    """What the tiers answer the workload in: measured, or else configured."""
    answers = sample.answers.get(workload, {})
    known = {tier: each.seconds for tier, each in answers.items() if sample.enough(each.rate)}
    return ResponseTimes(
        known.get(Tier.EDGE, configured.edge), known.get(Tier.CLOUD, configured.cloud)
    )


def _change_of_share(snapshot: Snapshot, move: MoveOutcome) -> int:
    """How many more pods the edge has by it."""

    def on_edge(name: NodeName | None) -> bool:
        node = None if name is None else snapshot.nodes.get(name)
        return node is not None and node.tier is Tier.EDGE

    return on_edge(move.move.target) - on_edge(move.move.source)
