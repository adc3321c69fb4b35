"""What has come true of what was decided: a line for each batch, and the sum of it at the end.

A pod is bound when the API server shows it so; the line of its batch waits for all of them.
"""

from collections import Counter
from collections.abc import Iterable

import attrs
import structlog

from kubedsm.execution.plan_logging import plan_logged
from kubedsm.explain.migration_outcome import Outcome
from kubedsm.model.model import Uid
from kubedsm.optimizer.placing.decision import Binding

log = structlog.get_logger()


@attrs.define
class Batch:
    """Pods that are decided on together, and what became of those that were to be bound."""

    #: of each bind, which pod goes where; the line is logged once none is under way
    _under_way: dict[Uid, str] = attrs.field(factory=dict, init=False)
    _bound: list[str] = attrs.field(factory=list, init=False)
    _failed: list[str] = attrs.field(factory=list, init=False)
    #: what the line says beside
    _said: dict[str, object] | None = attrs.field(default=None, init=False)

    def asked(self, bindings: Iterable[Binding]) -> None:
        self._under_way |= {pod.uid: f"{pod} on {node}" for pod, node, _ in bindings}

    def settled(self, uid: Uid, *, done: bool) -> None:
        named = self._under_way.pop(uid, None)
        if named is not None:
            (self._bound if done else self._failed).append(named)
            self._log_if_over()

    def decided(self, said: dict[str, object]) -> None:
        self._said = said
        self._log_if_over()

    def only_said(self, said: dict[str, object]) -> None:
        """Nothing of it is ever going to be bound."""
        log.info("batch", bound=0, would_bind=len(self._under_way), **said)

    def _log_if_over(self) -> None:
        if self._said is None or self._under_way:
            return
        failed = {"failed": len(self._failed)} if self._failed else {}
        with plan_logged(None):  # the batch may have several
            log.info("batch", bound=len(self._bound), **failed, **self._said)
            if self._bound or self._failed:
                log.debug("batch pods", bound=self._bound, failed=self._failed)


@attrs.define
class WorkDone:
    """`dry_run`: no bind is ever seen."""

    dry_run: bool = False
    _bound: int = attrs.field(default=0, init=False)
    _moves: Counter[Outcome] = attrs.field(factory=Counter, init=False)
    #: of each pod whose bind is under way
    _batches: dict[Uid, Batch] = attrs.field(factory=dict, init=False)

    def asked(self, batch: Batch, bindings: Iterable[Binding]) -> None:
        """To be told before they are, for some may be refused at once."""
        bindings = list(bindings)
        batch.asked(bindings)
        self._batches |= dict.fromkeys((binding.pod.uid for binding in bindings), batch)

    def decided(self, batch: Batch, **said: object) -> None:
        """Nothing more of the batch will be asked for; this is to be said of it beside."""
        if self.dry_run:
            batch.only_said(said)
        else:
            batch.decided(said)

    def settled(self, uid: Uid, *, done: bool) -> None:
        self._bound += done
        batch = self._batches.pop(uid, None)
        if batch is not None:
            batch.settled(uid, done=done)

    def move_ended(self, outcome: Outcome) -> None:
        self._moves[outcome] += 1

    def summary(self) -> dict[str, int]:
        return {
            "bound": self._bound,
            "moves_done": self._moves[Outcome.COMPLETED],
            "moves_taken_back": self._moves[Outcome.TAKEN_BACK],
            "moves_failed": self._moves[Outcome.FAILED],
        }
