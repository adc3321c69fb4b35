"""Image pulls of migrations: expected time on the target node, the speed observed there, and pulls
ahead of the migration (`migration.prePull`).

A pod that pulls ahead runs no process. It is evicted once the images are there. If the scheduler
terminates before, the pod ends at its own deadline, the orphan sweep of the next leader evicts it,
and the garbage collector deletes it together with the migrated pod.
"""

from collections.abc import Iterable, Mapping

import attrs
import structlog

from kubedsm.events.controller import Controller
from kubedsm.execution.bind_calls import IsPending
from kubedsm.execution.migration_calls import LONGEST_START, RETRY, SLACK
from kubedsm.kube.calls import reads, writes
from kubedsm.kube.calls.image_pulls import (
    PULL_COMMAND,
    create_pull_pod,
    pull_label,
    read_pull_spec,
)
from kubedsm.kube.client.port import ClusterError, NotFound
from kubedsm.model.images import LEAST_OBSERVED, estimate_pull, list_missing, with_tag
from kubedsm.model.model import PULL_LABEL, NodeName, Pod, Uid
from plans.steps import Step, StepKind, StepState

log = structlog.get_logger()

#: seconds that the pod may take in addition to the pull
_STARTING = 30.0
#: attempts to evict the pod before the orphan sweep does
_ATTEMPTS = 3


@attrs.define(eq=False, repr=False)
class ImagePulls(Controller):
    """Missing images of migrations in progress."""

    #: bytes that each migration's replacement pulls, and the time of its bind
    _sizes: dict[str, int] = attrs.field(factory=dict, init=False)
    _bound: dict[str, float] = attrs.field(factory=dict, init=False)
    #: migrations whose images were pulled ahead
    _pulled: set[str] = attrs.field(factory=set, init=False)
    #: pods that pull ahead for migrations in progress
    _ahead: set[Uid] = attrs.field(factory=set, init=False)
    #: other pods with the label that were checked
    _checked: set[Uid] = attrs.field(factory=set, init=False)

    def extend_deadline(self, step: Step, pod: Pod, ready_within: float) -> float:
        """Return the seconds within which the replacement should be Ready, given those without a
        pull; 0 for the deadline of every migration.
        """
        node = NodeName(step.node)
        # After a pull ahead, the node may report the images only later.
        missing = {} if step.move in self._pulled else self._list_missing(pod, node)
        size = self._sizes[step.move] = sum(missing.values())
        if not size:
            return ready_within
        usual = max(ready_within, self.configuration.current.migration.deadline)
        pull = estimate_pull(size, node, self.mirror.pull_speeds)
        return min(usual + SLACK * pull, LONGEST_START)

    def _list_missing(self, pod: Pod, target: NodeName) -> Mapping[str, int]:
        """Return the bytes of each image of the pod that the target lacks."""
        node = self.mirror.node(target)
        return {} if node is None else list_missing(pod, node, self.mirror.snapshot().index)

    def observe_step(self, step: Step) -> None:
        """Derive the speed of a pull from the time between a replacement's bind and readiness."""
        now, move = self.clock.monotonic(), step.move
        if step.kind is StepKind.BIND and step.state is StepState.DONE:
            self._bound[move] = now
        elif step.kind is StepKind.AWAIT_READY:
            size, bound = self._sizes.pop(move, 0), self._bound.pop(move, None)
            self._pulled.discard(move)
            if step.state is StepState.DONE and bound is not None:
                self._observe_pull(NodeName(step.node), size, now - bound)

    def _observe_pull(self, node: NodeName, size: int, seconds: float) -> None:
        if size >= LEAST_OBSERVED and seconds > 0:
            self.mirror.pull_speeds = self.mirror.pull_speeds.set(node, size / seconds)

    # Pulls ahead of migrations.

    async def pull_ahead(self, step: Step, pod: Pod, is_pending: IsPending) -> bool:
        """Have the target pull the pod's missing images, and wait for the pull; return False if
        nothing was waited for.

        A refusal, such as by a quota, and a pull that takes too long are logged: the migration goes
        on without.
        """
        node = NodeName(step.node)
        missing = self._list_missing(pod, node)
        if not (missing and self.configuration.current.migration.pre_pull and is_pending()):
            return False
        size, begun = sum(missing.values()), self.clock.monotonic()
        pull = estimate_pull(size, node, self.mirror.pull_speeds)
        within = min(SLACK * pull + _STARTING, LONGEST_START)
        try:
            puller = await self._create_puller(pod, node, missing, within)
        except ClusterError as error:
            self.throttle.log(log.info, "images not pulled ahead", error, pod=str(pod), node=node)
            return True
        self._ahead.add(puller.uid)
        seen = False
        try:
            while is_pending():
                taken = self.clock.monotonic() - begun
                known = self.mirror.pod(puller.uid)
                seen = seen or known is not None
                is_there = not self._list_missing(pod, node)
                if is_there or (seen and (known is None or known.finished or known.terminating)):
                    if is_there or await self._has_pulled(puller):
                        self._pulled.add(step.move)
                        self._observe_pull(node, size, taken)
                    break
                if taken > within:
                    log.info("images not pulled ahead in time", pod=str(pod), node=node)
                    break
                await self.clock.sleep(RETRY)
        finally:
            self._ahead.discard(puller.uid)
        await self._remove(puller)
        return True

    async def _has_pulled(self, puller: Pod) -> bool:
        """Return True if the ended pod's images are pulled: its node may report them only later."""
        known = self.mirror.pod(puller.uid)
        try:
            ended = known is not None and known.finished
            return ended and await reads.has_pulled(self.cluster, puller)
        except ClusterError:
            return False

    async def _create_puller(
        self, pod: Pod, node: NodeName, missing: Mapping[str, int], within: float
    ) -> Pod:
        spec = await read_pull_spec(self.cluster, pod)
        images = dict.fromkeys(each.image for each in (*spec.init_containers, *spec.containers))
        return await create_pull_pod(
            self.cluster,
            pod,
            node,
            [image for image in images if with_tag(image) in missing],
            spec,
            within=within + _STARTING,
        )

    async def _remove(self, puller: Pod) -> None:
        """Evict a pod that pulled images; after a few failures the orphan sweep does."""
        for _ in range(_ATTEMPTS):
            try:
                await writes.evict(self.cluster, puller)
            except NotFound:
                return
            except ClusterError as error:
                self.throttle.log(log.info, "image pull not ended", error, pod=str(puller))
                await self.clock.sleep(RETRY)
            else:
                return

    def list_orphans(self) -> list[Pod]:
        """Return pods that pull images for no migration in progress, and were not checked yet."""
        ours = pull_label(self.configuration.current.scheduler_name)
        labelled = [
            pod
            for pod in self.mirror.labelled_pods()
            if pod.labels.get(PULL_LABEL) == ours and not pod.terminating
        ]
        self._checked &= {pod.uid for pod in labelled}
        return [pod for pod in labelled if pod.uid not in self._ahead | self._checked]

    async def remove_orphans(self, pods: Iterable[Pod]) -> None:
        """Check and remove orphans one after the other, each once unless that fails."""
        pods = list(pods)
        self._checked.update(pod.uid for pod in pods)
        for pod in pods:
            await self._remove_orphan(pod)

    async def _remove_orphan(self, pod: Pod) -> None:
        """Evict an orphaned pod that pulls images, unless its label is forged."""
        try:
            spec = await read_pull_spec(self.cluster, pod)
        except ClusterError as error:
            self.throttle.log(log.info, "image pull unreadable", error, pod=str(pod))
            self._checked.discard(pod.uid)
            return
        if all(each.command == (PULL_COMMAND,) for each in spec.containers):
            await self._remove(pod)
            self._checked.discard(pod.uid)
