"""Did it help? What each move was to bring its service, and what it brought, as it is measured.

Compared are the sample before the move began and the first one that lies wholly after its end.
That tells of the move only if nothing else happened to the service meanwhile: as many pods, and no
other move of any. Moves of a service that are under way at one time are judged together. Otherwise
it is said why nothing can be told.
"""

import attrs
import msgspec
import structlog

from kubedsm.config.current import CurrentConfiguration
from kubedsm.explain.decisions import Decisions
from kubedsm.explain.effects import Around, Effect, Response, expect_change
from kubedsm.explain.listener import Listener
from kubedsm.explain.migration_outcome import MoveOutcome, Outcome
from kubedsm.model.change import Change
from kubedsm.model.measured import Measured
from kubedsm.model.model import NodeName, Share, Tier, Workload
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.response_times import ResponseTimes
from kubedsm.optimizer.moving.suggestion import MoveKind
from kubedsm.process.clock import Clock

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
    """A move that has begun; with others of its workload if they are under way at one time."""

    workload: Workload
    #: when the first of them began
    sample: Measured
    share: Share
    times: ResponseTimes
    untold: str
    #: by id, those that are under way or were completed: how many more pods the edge has by each
    more: dict[str, int] = attrs.field(factory=dict)
    under_way: set[str] = attrs.field(factory=set)
    kinds: dict[str, MoveKind | None] = attrs.field(factory=dict)
    #: of the last, seconds since the epoch
    ended_at: float = 0.0

    def effect(self, measured: Around[Response] | None = None) -> Effect:
        both = expect_change(self.times, self.share, sum(self.more.values()))
        return Effect(both, measured, None if measured else self.untold or None, len(self.more))


@attrs.define
class MoveEffects:
    """The one owner of what is not told yet; of what is, the record."""

    _decisions: Decisions
    _clock: Clock
    _configuration: CurrentConfiguration
    _listener: Listener
    _watched: dict[Workload, _Watched] = attrs.field(factory=dict, init=False)
    #: when a move of these ended last, if that is not long ago
    _ended: dict[Workload, float] = attrs.field(factory=dict, init=False)

    def begun(self, move: MoveOutcome) -> None:
        """A move begins, its pod still where it was."""
        snapshot, workload = self._decisions.mirror.snapshot(), move.move.pod.workload
        watched = self._watched.get(workload)
        if watched is None or not watched.under_way:
            if watched is not None:
                self._told(watched, watched.untold or OTHER_MOVES)
            watched = self._watched[workload] = self._first(snapshot, workload)
        watched.more[move.id] = _change_of_share(snapshot, move)
        watched.kinds[move.id] = move.move.kind
        watched.under_way.add(move.id)

    def _first(self, snapshot: Snapshot, workload: Workload) -> _Watched:
        self._forget_long_ended()
        sample, share = snapshot.measured, snapshot.shares().get(workload, Share())
        untold = _not_told(sample, workload)
        if self._ended.get(workload, 0.0) > sample.answered - sample.window:
            untold = untold or OTHER_MOVES
        believed = sample.believed(sample.answers.get(workload, {}))
        times = ResponseTimes.of(believed, self._configuration.current.latency.times)
        return _Watched(workload, sample, share, times, untold)

    def ended(self, move: MoveOutcome) -> MoveOutcome:
        """A move is over: the same with its effect, as far as it is known."""
        watched = self._watched.get(move.move.pod.workload)
        if watched is None or move.id not in watched.under_way:
            return move
        watched.under_way.remove(move.id)
        watched.ended_at = self._ended[watched.workload] = self._clock.wall()
        completed = move.outcome is Outcome.COMPLETED
        if not completed:
            del watched.more[move.id]
        if not watched.under_way:
            self._tell_if_known(watched, None)
        effect = msgspec.structs.replace(watched.effect(), untold=watched.untold or AWAITED)
        return attrs.evolve(move, effect=effect) if completed else move

    def observe(self, change: Change) -> None:
        """Tell what a new sample tells."""
        sample = change.measured_after
        if sample is not None:
            for watched in [each for each in self._watched.values() if not each.under_way]:
                self._tell_if_known(watched, sample)

    def _tell_if_known(self, watched: _Watched, sample: Measured | None) -> None:
        """Of moves that are over; sample: a new one."""
        pods = self._decisions.mirror.snapshot().shares().get(watched.workload, Share()).total
        why = watched.untold
        if not watched.more:
            del self._watched[watched.workload]
        elif why or pods != watched.share.total:
            self._told(watched, why or SCALED.format(watched.share.total, pods))
        elif sample is not None and not sample.at:
            self._told(watched, NOT_MEASURED)
        elif sample is not None and sample.answered - sample.window >= watched.ended_at:
            self._told(watched, _not_told(sample, watched.workload), sample)

    def _told(self, watched: _Watched, untold: str, sample: Measured | None = None) -> None:
        """What they brought, or why that is not told; for good."""
        del self._watched[watched.workload]
        watched.untold = untold
        measured = None
        if sample is not None and not untold:
            before, after = (
                Response.of(of.answers[watched.workload]) for of in (watched.sample, sample)
            )
            measured = Around(before, after)
        effect = watched.effect(measured)
        if measured:
            log.info("moves judged", workload=str(watched.workload), effect=str(effect))
        for move in watched.more:
            self._decisions.record.move_helped(move, effect)
            self._listener.move_judged(watched.kinds[move], effect)

    def _forget_long_ended(self) -> None:
        oldest = self._clock.wall() - 2 * self._configuration.current.load_aware.window
        self._ended = {w: at for w, at in self._ended.items() if at > oldest}


def _not_told(sample: Measured, workload: Workload) -> str:
    """Why the sample does not tell what the workload answers in; empty if it does."""
    answers = sample.answers.get(workload)
    if not answers:
        return NOT_MEASURED
    return "" if sample.enough(sum(each.rate for each in answers.values())) else TOO_FEW


def _change_of_share(snapshot: Snapshot, move: MoveOutcome) -> int:
    """How many more pods the edge has by it."""

    def on_edge(name: NodeName | None) -> bool:
        node = None if name is None else snapshot.nodes.get(name)
        return node is not None and node.tier is Tier.EDGE

    return on_edge(move.move.target) - on_edge(move.move.source)
