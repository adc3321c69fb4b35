"""PodDisruptionBudgets in a what-if drain: evictions at a time, and the pods that block the drain.

The Eviction API refuses a pod with two budgets, too. A budget that allows nothing at the moment may
allow evictions later, when more pods are healthy.
"""

from collections.abc import Sequence
from math import ceil

import attrs

from kubedsm.explain.explanation import Section, Words, join_links, link, table
from kubedsm.model.model import Pod, Uid
from kubedsm.model.selecting import Budget
from kubedsm.model.snapshot import Snapshot
from kubedsm.planner.hypothesis import Hypothesis
from kubedsm.planner.plurals import counted, named
from kubedsm.planner.what_if import WhatIfResponse


@attrs.frozen
class DrainBudgets:
    """Budgets of the pods that a drain evicts. `unread`: why budgets are unknown, else empty."""

    budgets: Sequence[Budget] = ()
    unread: str = ""

    def list_kept(self, hypothesis: Hypothesis, snapshot: Snapshot) -> frozenset[Uid]:
        """Return the pods on drained nodes that no eviction removes, even in a calm cluster."""
        return frozenset(
            pod.uid
            for pod in _list_drained(hypothesis, snapshot)
            if len(found := self._of(pod)) > 1 or any(each.never_allows for each in found)
        )

    def _of(self, pod: Pod) -> list[Budget]:
        return [budget for budget in self.budgets if budget.covers(pod)]

    def explain(
        self, response: WhatIfResponse, hypothesis: Hypothesis, snapshot: Snapshot
    ) -> tuple[list[Words], Section | None]:
        """Return sentences about budgets that block or delay the drain, and a table of budgets."""
        lines: list[Words] = []
        if self.unread:
            lines.append((f"PodDisruptionBudgets are not considered: {self.unread}.",))
        drained = _list_drained(hypothesis, snapshot)
        homeless = {each.pod for each in response.placed if each.source and not each.node}
        rows = []
        for budget in self.budgets:
            pods = [pod for pod in drained if budget.covers(pod)]
            if not pods:
                continue
            effect, blocks = self._describe_effect(budget, pods, homeless)
            workloads = [link("workload", each) for each in sorted({pod.workload for pod in pods})]
            if blocks:
                text = f"PodDisruptionBudget {budget} blocks the drain: {effect}; it covers "
                lines.append((text, *join_links(workloads), "."))
            at_a_time = str(min(budget.allowed, len(pods)))
            rows.append((str(budget), join_links(workloads), str(len(pods)), at_a_time, effect))
        headings = ("budget", "workloads", "pods to evict", "at a time", "effect")
        found = table(headings, rows)
        section = None if found is None else Section("PodDisruptionBudgets", table=found)
        return lines, section

    def _describe_effect(
        self, budget: Budget, pods: Sequence[Pod], homeless: set[str]
    ) -> tuple[str, bool]:
        """Describe the evictions that the budget allows; True if the drain does not end."""
        stay = f"{budget.desired} of {counted(budget.expected, 'pod')} must be healthy"
        if budget.never_allows:
            return f"no eviction is ever allowed, {stay}", True
        double = sorted(str(pod) for pod in pods if len(self._of(pod)) > 1)
        if double:
            return f"pods with two budgets cannot be evicted: {named(double)}", True
        if not budget.allowed:
            return f"no eviction is allowed now: {stay}", True
        waiting = sum(str(pod) in homeless for pod in pods)
        if waiting >= budget.allowed and len(pods) > budget.allowed:
            why = f"no node is feasible for {counted(waiting, 'replacement')}"
            return f"it ends after {counted(budget.allowed, 'eviction')}, because {why}", True
        rounds = ceil(len(pods) / budget.allowed)
        return "at once" if rounds == 1 else f"{rounds} rounds, as replacements are Ready", False


def _list_drained(hypothesis: Hypothesis, snapshot: Snapshot) -> Sequence[Pod]:
    return [pod for pod in snapshot.pods.values() if hypothesis.drains(pod, snapshot)]
