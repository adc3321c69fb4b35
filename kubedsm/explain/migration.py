"""Explanation of a migration: its reason, cost, steps, and effect."""

from collections.abc import Iterator

import attrs
import msgspec

from kubedsm.config.settings import Configuration
from kubedsm.explain.decision_record import Basis, DecisionRecord, Entry
from kubedsm.explain.explanation import (
    Explanation,
    Link,
    Section,
    Words,
    decision_link,
    join_links,
    link,
    moment,
    table,
)
from kubedsm.explain.facts import MigrationFacts, PodFacts
from kubedsm.explain.migration_outcome import MoveOutcome, Outcome
from kubedsm.explain.migration_progress import Names, Progress
from kubedsm.model.images import estimate_pull, list_missing
from kubedsm.model.model import NodeName, Pod, Share
from kubedsm.model.snapshot import Snapshot
from kubedsm.optimizer.moving.movable import find_volume_reason
from kubedsm.planner.plurals import counted
from kubedsm.planner.rebalancing_requests import migration_mode, reason_to_stay
from kubedsm.planner.what_if import describe_purpose
from plans.steps import StepKind

_VERBS = {
    "proposed": "would be migrated",
    "planned": "is to be migrated",
    "moving": "is being migrated",
    "completed": "was migrated",
}
_MODES = {
    "surge": "The replacement is created before the old pod is evicted: no replica is missing, and"
    " for a while there is one more.",
    "recreate": "The old pod is evicted before its replacement is created: one replica is missing"
    " meanwhile.",
    "off": "",
}


def with_mobility(
    facts: PodFacts, pod: Pod | None, snapshot: Snapshot, configuration: Configuration
) -> PodFacts:
    """Add to the facts about a pod with volumes how the pod would be migrated, or why not."""
    claims = [] if pod is None else pod.pod_class.rules.claim_keys
    surroundings = snapshot.surroundings
    is_bound = all(claim.bound for claim in surroundings.claims_at(claims))
    if pod is None or facts.left_to is not None or not is_bound:
        return facts
    stays = pod.pinned or find_volume_reason(pod, snapshot)
    if claims and not stays:
        stays = reason_to_stay(pod, configuration, surroundings)
    if stays:
        return msgspec.structs.replace(facts, migration=f"It is not migrated: {stays}.")
    if not claims:
        return facts
    text = "If it is migrated, its replacement starts first: several nodes can mount its claims."
    if migration_mode(pod, configuration) == "recreate":
        why = f"migrations of {pod.workload} recreate pods"
        if claim := surroundings.find_unshared(claims):
            why = f"its volume claim {claim} can be mounted on one node at a time"
        elif pod.workload.kind != "Deployment":
            why = f"a {pod.workload.kind} never has two pods of the same name"
        text = f"If it is migrated, the old pod is gone before its replacement starts: {why}."
    return msgspec.structs.replace(facts, migration=text)


def pod_names(outcome: MoveOutcome, progress: Progress) -> Names:
    """Return the names of pods and nodes for descriptions of a migration's steps."""
    replacement = str(outcome.replacement) if outcome.replacement else progress.replacement
    pod = progress.pod or str(outcome.move.pod)
    return Names(pod, replacement or "the new pod", outcome.move.target)


def describe_pull(pod: Pod, name: NodeName, snapshot: Snapshot) -> Iterator[Words]:
    """Describe each image of the pod that the node has to pull: name, size and expected time."""
    target = snapshot.nodes.get(name)
    missing = {} if target is None else list_missing(pod, target, snapshot.index)
    for image, size in missing.items():
        seconds = estimate_pull(size, name, snapshot.pull_speeds)
        about = f": {size / 1e6:.0f} MB, about {seconds:.0f} s."
        yield f"Image {image} is missing on ", link("node", name), about


@attrs.frozen(slots=True)
class MigrationExplainer:
    """Explainer of one migration, with all information as immutable values for any thread."""

    entry: Entry
    outcome: MoveOutcome
    basis: Basis | None
    progress: Progress
    state: str
    snapshot: Snapshot

    @classmethod
    def find(
        cls, record: DecisionRecord, key: str, snapshot: Snapshot
    ) -> "MigrationExplainer | None":
        """Look up a recorded migration by key; None if not recorded."""
        found = record.migration(key)
        if found is None:
            return None
        entry, outcome = found
        progress, basis = record.progress_of(outcome.id, snapshot.pods), record.basis(entry)
        state = record.state_of(outcome)
        return cls(entry, outcome, basis, progress, state, snapshot)

    def explain(self) -> Explanation[MigrationFacts]:
        title = f"Why {self.outcome.move.pod} {self._verb}"
        facts = self.outcome.facts(self.entry.at)
        return Explanation(
            title, tuple(self._describe_migration()), tuple(self._list_sections()), facts
        )

    @property
    def _verb(self) -> str:
        return _VERBS.get(self.state, "was to be migrated")

    @property
    def _names(self) -> Names:
        return pod_names(self.outcome, self.progress)

    @property
    def _purpose(self) -> str:
        if self.basis is None:
            return self.outcome.move.purpose
        qos_targets = self.entry.configuration.policy.qos_targets_in(self.basis.snapshot)
        moves = [outcome.move for outcome in self.entry.moves]
        return describe_purpose(self.outcome.move, moves, self.basis.shares_before, qos_targets)

    def _describe_migration(self) -> Iterator[Words]:
        move, outcome = self.outcome.move, self.outcome
        source: Words = (" from ", link("node", move.source)) if move.source else ()
        target = link("node", move.target)
        yield (
            link("pod", move.pod),
            f" {self._verb}",
            *source,
            " to ",
            target,
            f": {self._purpose}.",
        )
        text, _ = self.progress.describe_current(self._names)
        step = self.progress.current
        if step is not None and step.kind is StepKind.RESTORE:
            yield (f"It is being rolled back: {text}.",)
        elif step is not None:
            done, count = self.progress.count_steps()
            yield (f"Step {done + 1} of {count} is in progress: {text}.",)
        if outcome.outcome in (Outcome.FAILED, Outcome.DROPPED, Outcome.ROLLED_BACK):
            reason = f": {outcome.reason}" if outcome.reason else ""
            yield (f"It was {outcome.outcome}{reason}.",)
        elif outcome.reason:
            yield (f"It is {outcome.outcome}: {outcome.reason}.",)
        number = decision_link(self.entry.number)
        yield ("It belongs to ", number, ", at ", moment(self.entry.at), ".")
        if outcome.replacement is not None:
            yield (link("pod", outcome.replacement), " replaces it.")

    def _list_sections(self) -> Iterator[Section]:
        yield Section("Benefit", tuple(self._describe_benefit()))
        yield Section("Cost", tuple(self._describe_cost()))
        rows = [((moment(at),), (text,)) for at, text in self.progress.describe_steps(self._names)]
        if rows:
            yield Section("Steps", table=table(("when", "step"), rows))
        if self.outcome.outcome is Outcome.COMPLETED:
            yield Section("Effect", tuple(self._describe_effect()))

    def _describe_benefit(self) -> Iterator[Words]:
        move, entry = self.outcome.move, self.entry
        workload = move.pod.workload
        if move.gain:
            yield (f"QoS score {move.gain:+.3f} for each migration of its group.",)
        elif move.purpose:
            yield (f"It is made {move.purpose}.",)
        if self.basis is not None and workload in self.basis.shares_after:
            before = self.basis.shares_before.get(workload, Share())
            after = self.basis.shares_after[workload]
            had = f" had {before.edge} of its {counted(before.total, 'pod')} at the edge"
            then = f"all migrations of the decision together make that {after.edge}"
            yield link("workload", workload), f"{had}; {then} of {after.total}."
        group = [
            Link("move", other.key, str(other.move.pod))
            for other in entry.moves
            if other.move.group == move.group and other.key != self.outcome.key
        ]
        if group:
            yield ("It is made only together with ", *join_links(group), ".")

    def _describe_cost(self) -> Iterator[Words]:
        move = self.outcome.move
        if text := _MODES[migration_mode(move.pod, self.entry.configuration)]:
            yield (text,)
        began, ended = self.progress.began, self.progress.ended
        if began and ended:
            yield (f"It took {ended - began:.0f} s, until ", moment(ended), ".")
        elif began:
            yield ("It began at ", moment(began), ".")
        if not self.progress.ended and self.state in _VERBS:
            yield from describe_pull(move.pod, move.target, self.snapshot)
        if price := self.entry.configuration.migration.price:
            yield (f"Its benefit has to exceed {price:g} pod-seconds at the edge.",)

    def _describe_effect(self) -> Iterator[Words]:
        workload, effect = self.outcome.move.pod.workload, self.outcome.effect
        if effect is not None:
            yield (f"Mean response time of the service: {effect}.",)
        share = self.snapshot.census.shares.get(workload)
        if share is not None:
            now = f" has {share.edge} of its {counted(share.total, 'pod')} at the edge now."
            yield (link("workload", workload), now)
