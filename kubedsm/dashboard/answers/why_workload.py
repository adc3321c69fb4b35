"""How much of a workload is at the edge, what is promised to it, and what keeps the rest away."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import attrs

from kubedsm.config.services import entries_for
from kubedsm.config.settings import Configuration
from kubedsm.dashboard.answers.answer import (
    Answer,
    Section,
    Words,
    node_link,
    percent,
    pod_link,
    table,
)
from kubedsm.dashboard.answers.verdicts import rules_told
from kubedsm.explain.answers import Explainer
from kubedsm.model.model import Node, NodeName, Pod, PodClass, Share, Tier, Workload
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.objective import count_target_pods
from kubedsm.planner.plurals import counted
from kubedsm.planner.what_if import WhatIfResponse

#: pods that are shown
_SHOWN = 20


def workload_named(snapshot: Snapshot, name: str) -> Workload | None:
    return next((workload for workload in snapshot.shares() if str(workload) == name), None)


def about_workload(
    snapshot: Snapshot,
    configuration: Configuration,
    workload: Workload,
    found: WhatIfResponse | None,
) -> Callable[[], Answer]:
    """How to tell of the workload in any thread. `found`: what would be moved now, if known."""
    return _About(snapshot, configuration, workload, found).told


@attrs.frozen(slots=True)
class _About:
    snapshot: Snapshot
    configuration: Configuration
    workload: Workload
    found: WhatIfResponse | None

    def told(self) -> Answer:
        snapshot, workload = self.snapshot, self.workload
        share = snapshot.shares().get(workload, Share())
        promise = self.configuration.policy.qos_targets_in(snapshot)(workload)
        wanted = count_target_pods(promise.qos, share.total)
        missing = max(0, wanted - share.edge)
        kept = f"{counted(missing, 'pod')} missing" if missing else "the promise is kept"
        has = f"{workload} has {share.edge} of its {counted(share.total, 'pod')} at the edge"
        lines: list[Words] = [
            (f"{has} and is promised {wanted} ({percent(promise.qos)}): {kept}.",),
            (self._where_from(),),
        ]
        if promise.most is not None and promise.most < wanted:
            lines.append(
                (f"No more than {promise.most} are put there: the edge answers it more slowly.",)
            )
        sections = tuple(self._sections(away=missing > 0))
        return Answer(f"Why {workload} has {share.edge} at the edge", tuple(lines), sections)

    def _where_from(self) -> str:
        """Which entry makes the promise."""
        deciding = entries_for(self.configuration.services, self.workload)
        for field, key in (("qos", "qos"), ("latency_target", "latencyTarget")):
            if field in deciding:
                entry, _ = deciding[field]
                return f"Promised by services, {entry}: {key}."
        return "Nothing is configured for it, so all of it is promised the edge."

    def _sections(self, *, away: bool) -> Iterator[Section]:
        snapshot = self.snapshot
        pods = [
            pod
            for pod in snapshot.pods.values()
            if pod.workload == self.workload and pod.counts_for_qos
        ]
        elsewhere = [pod for pod in pods if not self._on_edge(pod)]
        if away and elsewhere:
            headings = ("pod", "where", "why it is not at the edge")
            rows = self._kept_away(elsewhere[:_SHOWN])
            more = len(elsewhere) - _SHOWN
            lines: tuple[Words, ...] = ((f"And {more} more.",),) if more > 0 else ()
            yield Section("What keeps the missing away", lines, table(headings, rows))
        counts = Counter(snapshot.placed.get(pod.uid) for pod in pods)
        where = (
            (node_link(name) if name else "waiting", self._tier(name), str(number))
            for name, number in sorted(counts.items(), key=lambda item: str(item[0] or ""))
        )
        yield Section("Where its pods are", table=table(("node", "tier", "pods"), where))

    def _kept_away(self, pods: Sequence[Pod]) -> Iterator[tuple[Words, ...]]:
        left, moved = {}, {}
        if self.found is not None:
            left = {each.pod: each.message for each in self.found.left}
            moved = {each.pod: each.target for each in self.found.moves}
        explainer = Explainer(self.snapshot, self.configuration.policy)
        # What is so for one is so for those like it; it takes a while to find out.
        alike: dict[PodClass, str] = {}
        for pod in pods:
            name = self.snapshot.placed.get(pod.uid)
            where: Words = (node_link(name),) if name else ("waiting",)
            if str(pod) in moved:
                why: Words = ("it would be moved to ", node_link(moved[str(pod)]), " now")
            elif str(pod) in left:
                why = (left[str(pod)],)
            else:
                if pod.pod_class not in alike:
                    alike[pod.pod_class] = self._rejected(explainer, pod)
                why = (alike[pod.pod_class],)
            yield (pod_link(pod),), where, why

    def _rejected(self, explainer: Explainer, pod: Pod) -> str:
        """What the edge is for it as things are."""
        edge = {node.name for node in self.snapshot.of_tier(Tier.EDGE)}
        rejections = explainer.rejections(pod.uid, plain=False)
        rules = [rejected.rule for name, rejected in rejections.items() if name in edge]
        if not edge:
            return "there is no edge node"
        if len(rules) < len(edge):
            return "an edge node would take it; no move to it pays now"
        return f"the edge rejects it: {rules_told(rules)}"

    def _node(self, name: NodeName | None) -> Node | None:
        return self.snapshot.nodes.get(name) if name else None

    def _tier(self, name: NodeName | None) -> str:
        node = self._node(name)
        return node.tier or "" if node else ""

    def _on_edge(self, pod: Pod) -> bool:
        return self._tier(self.snapshot.placed.get(pod.uid)) == Tier.EDGE
