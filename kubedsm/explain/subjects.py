"""Subjects of explanations (pod, node, workload, migration, decision), and their explanation."""

import asyncio
import difflib
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias

import attrs

from kubedsm.explain.decision import explain_decision
from kubedsm.explain.decisions import Decisions
from kubedsm.explain.explanation import Explanation
from kubedsm.explain.migration import MigrationExplainer
from kubedsm.explain.node import NodeExplainer, recent_decisions, recent_migrations
from kubedsm.explain.pod import explain_pod
from kubedsm.explain.workload import WorkloadExplainer
from kubedsm.model.model import NodeName, Workload
from kubedsm.model.sites import Away
from kubedsm.model.snapshot import Snapshot
from kubedsm.planner.requests import NoResponseError, Planner
from kubedsm.planner.what_if import WhatIfRequest, WhatIfResponse

Kind: TypeAlias = Literal["pod", "node", "workload", "migration", "decision"]

FORMS = (
    "POD, NAMESPACE/POD, pod/NAME, node/NAME, deployment/NAME, statefulset/NAME, job/NAME,"
    " migration/ID or decision/NUMBER"
)
_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("pod", "pods", "po"), "pod"),
    **dict.fromkeys(("node", "nodes", "no"), "node"),
    **dict.fromkeys(("migration", "migrations"), "migration"),
    **dict.fromkeys(("decision", "decisions"), "decision"),
}
#: kinds of controllers, by the names that kubectl accepts
_OWNERS = {
    **dict.fromkeys(("deployment", "deployments", "deploy"), "deployment"),
    **dict.fromkeys(("statefulset", "statefulsets", "sts"), "statefulset"),
    **dict.fromkeys(("replicaset", "replicasets", "rs"), "replicaset"),
    **dict.fromkeys(("daemonset", "daemonsets", "ds"), "daemonset"),
    **dict.fromkeys(("job", "jobs"), "job"),
}
#: limit of comparisons for a suggestion
_COMPARED = 2000
#: digits that no decision's number has
_DIGITS = 20


class SubjectError(ValueError):
    """Error: the name of a pod, node, workload, migration or decision cannot be resolved."""


class Subject(NamedTuple):
    kind: Kind
    #: pod: [NAMESPACE/]NAME; workload: [OWNER/][NAMESPACE/]NAME
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


def parse_subject(words: Sequence[str], namespace: str | None) -> Subject:
    """Parse `KIND/NAME`, `KIND NAME` or the name of a pod. Raise SubjectError."""
    first, slash, rest = words[0].partition("/")
    given = " ".join(words)
    first = first.lower().partition(".")[0]  # kubectl prints deployment.apps/NAME
    if len(words) > 1:
        rest = words[1]
    elif not slash or first not in _KINDS.keys() | _OWNERS.keys():
        first, rest = "pod", words[0]
    kind = _KINDS.get(first, "workload")
    is_namespaced = kind in ("pod", "workload")
    slashes = rest.count("/")
    if not all(map(str.strip, rest.split("/"))):
        raise SubjectError(f"{given!r} lacks a name: name {FORMS}")
    if (
        first not in _KINDS.keys() | _OWNERS.keys()
        or (kind != "migration" and slashes > is_namespaced)
        or len(words) > 2  # noqa: PLR2004
    ):
        raise SubjectError(f"{given} cannot be explained{suggest_kind(words[0])}: name {FORMS}")
    if is_namespaced and namespace is not None:
        if slashes and rest.partition("/")[0] != namespace:
            raise SubjectError(f"{rest} is not in namespace {namespace}")
        rest = rest if slashes else f"{namespace}/{rest}"
    return Subject(kind, f"{_OWNERS[first]}/{rest}" if kind == "workload" else rest)


def suggest_kind(word: str) -> str:
    """Return a remark that suggests a valid kind, if the text before the slash in `word` is none;
    else empty.
    """
    kind = word.partition("/")[0]
    if kind in _KINDS.keys() | _OWNERS.keys() or "/" not in word:
        return ""
    near = difflib.get_close_matches(kind, {*_KINDS.values(), *_OWNERS.values()}, n=1)
    return f", {kind} is not a known kind{f'; did you mean {near[0]}?' if near else ''}"


def explain_absence(snapshot: Snapshot, subject: Subject) -> str:
    """Return why a pod, node or workload is not found, and the nearest name or the remedy."""
    name, ours = subject.name, snapshot.scheduler_name
    plural = {"pod": "pods", "node": "nodes"}.get(subject.kind, f"{name.partition('/')[0]}s")
    if subject.kind == "workload":
        owner, _, rest = name.partition("/")
        for pod in snapshot.pods.values():
            workload = pod.workload
            named = rest in (str(workload), workload.name)
            if named and workload.kind.lower() == owner and pod.scheduler_name != ours:
                return (
                    f"{owner} {workload} uses the scheduler {pod.scheduler_name}: to opt in, set"
                    f" spec.template.spec.schedulerName: {ours}"
                )
        known = [f"{w.kind.lower()}/{w}" for w in snapshot.census.shares]
        text = f"no {owner} {rest} has pods with schedulerName: {ours}"
    else:
        listed = snapshot.pods.values() if subject.kind == "pod" else snapshot.nodes
        known = [str(each) for each in listed]
        text = f"there is no {subject.kind} {name}"
    if subject.kind == "pod":
        called = [w for w in snapshot.census.shares if name in (str(w), w.name)]
        if called:
            meant = " or ".join(f"{w.kind.lower()}/{w}" for w in sorted(called))
            return f"{text}; did you mean {meant}?"
    short = {each.rpartition("/")[2]: each for each in known}
    near = [
        *difflib.get_close_matches(name, known[:_COMPARED], n=1),
        *(short[each] for each in difflib.get_close_matches(name.rpartition("/")[2], short, n=1)),
    ]
    scope = "" if subject.kind == "node" else " -A"
    mend = f"did you mean {near[0]}?" if near else f"`kubectl get {plural}{scope}` lists them"
    namespaces = {pod.namespace for pod in snapshot.pods.values()}
    if subject.kind == "pod" and name.partition("/")[0] not in namespaces:
        text += suggest_kind(name)
    return text if text.endswith("?") else f"{text}; {mend}"


def find_workload(snapshot: Snapshot, name: str) -> Workload | None:
    """Return the workload with the name, or None. Raise SubjectError for ambiguous names."""

    def names(workload: Workload) -> Iterable[str]:
        yield from (str(workload), workload.name)
        owner = workload.kind.lower()
        yield from (f"{owner}/{workload}", f"{owner}/{workload.name}")

    found = [workload for workload in snapshot.census.shares if name in names(workload)]
    if len(found) > 1:
        several = ", ".join(sorted(f"{w.kind.lower()}/{w}" for w in found))
        raise SubjectError(f"several workloads are called {name}: {several}")
    return found[0] if found else None


@attrs.define(eq=False)
class Explanations:
    """Explanations computed by the running scheduler, one request at a time.

    Facts are collected on the event loop. A thread computes the explanation concurrently with
    scheduling.
    """

    decisions: Decisions
    planner: Planner
    _away: Callable[[], Away]
    #: request for currently suggested migrations; None without a suggester
    _suggestion: Callable[[], WhatIfRequest | None] | None
    #: reason why migrations of a workload may not begin now
    _deferral: Callable[[Workload], object | None]
    _lock: asyncio.Lock = attrs.field(factory=asyncio.Lock, init=False)

    async def explain(
        self, subject: Subject, *, leading: bool, only_recorded: bool = False
    ) -> Explanation[Any] | None:
        """Explain a pod, node, workload, migration or decision; None if unknown. Raise
        SubjectError.

        `leading`: this process makes the decisions. `only_recorded`: without recorded decisions a
        pod of ours counts as unknown.
        """
        suggested = None
        if subject.kind == "workload" and leading:
            # The slow request comes first: other facts are then simultaneous.
            suggested = await self._suggest()
        async with self._lock:
            explain = self.collect(subject, suggested, only_recorded=only_recorded)
            return None if explain is None else await asyncio.to_thread(explain)

    def collect(
        self,
        subject: Subject,
        suggested: WhatIfResponse | None = None,
        *,
        only_recorded: bool = False,
    ) -> Callable[[], Explanation[Any]] | None:
        """Collect the facts; return a function for computing the explanation in any thread."""
        decisions, record, name = self.decisions, self.decisions.record, subject.name
        snapshot, configuration = decisions.mirror.snapshot(), decisions.configuration.current
        match subject.kind:
            case "pod":
                return self._collect_pod(name, only_recorded=only_recorded)
            case "node":
                node = snapshot.nodes.get(NodeName(name))
                if node is None:
                    return None
                return NodeExplainer(
                    node,
                    snapshot,
                    configuration,
                    self._away(),
                    recent_decisions(record),
                    recent_migrations(record, name),
                ).explain
            case "workload":
                workload = find_workload(snapshot, name)
                if workload is None:
                    return None
                deferral = str(self._deferral(workload) or "")
                return WorkloadExplainer(
                    snapshot, configuration, workload, suggested, deferral
                ).explain
            case "migration":
                migration = MigrationExplainer.find(record, name, snapshot)
                return None if migration is None else migration.explain
        # Python refuses to convert thousands of digits.
        is_number = name.isascii() and name.isdecimal() and len(name) < _DIGITS
        entry = record.entry(int(name)) if is_number else None
        if entry is None:
            return None
        states = [record.state_of(outcome) for outcome in entry.moves]
        return partial(explain_decision, entry, record.basis(entry), states)

    def _collect_pod(
        self, name: str, *, only_recorded: bool
    ) -> Callable[[], Explanation[Any]] | None:
        found = self.decisions.find_pods(name)
        if len(found) > 1:
            raise SubjectError(f"several pods are called {name}: {', '.join(found.values())}")
        for uid, full_name in found.items():
            snapshot = self.decisions.mirror.snapshot()
            pod = snapshot.pods.get(uid)
            ours = pod is None or pod.scheduler_name == snapshot.scheduler_name
            if ours and only_recorded and self.decisions.find_choice(uid) is None:
                return None
            facts = self.decisions.facts_of_pod(uid, full_name)
            return lambda: explain_pod(facts())
        return None

    async def _suggest(self) -> WhatIfResponse | None:
        request = self._suggestion and self._suggestion()
        try:
            return None if request is None else await self.planner.solve(request, idle=True)
        except NoResponseError:
            return None
