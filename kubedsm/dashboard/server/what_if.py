"""Explanation of a what-if response: shares, response times, placements and migrations."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import msgspec

from kubedsm.config.fields import write_section
from kubedsm.config.sections import SuggesterSettings
from kubedsm.config.settings import Configuration
from kubedsm.dashboard.server.drain_budgets import DrainBudgets
from kubedsm.explain.explanation import (
    Explanation,
    Link,
    Section,
    Table,
    Words,
    link,
    percent,
    table,
)
from kubedsm.model.model import Share, Workload
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.qos_targets import LatencyGoal, ResponseTimes
from kubedsm.planner.hypothesis import Hypothesis
from kubedsm.planner.plurals import counted
from kubedsm.planner.what_if import Placed, ShareThen, WhatIfResponse

#: rows shown of pods and migrations
_SHOWN = 50


def explain_what_if(
    response: WhatIfResponse,
    hypothesis: Hypothesis,
    snapshot: Snapshot,
    configuration: Configuration,
    budgets: DrainBudgets | None = None,
) -> Explanation[None]:
    """Explain in sentences and tables the placements and migrations that the changes would cause.

    `snapshot`: the cluster as it is, for measured response times. `budgets`: of drained pods.
    """
    lines, section = (budgets or DrainBudgets()).explain(response, hypothesis, snapshot)
    first, *others = _describe_result(response, configuration.suggester)
    goal = LatencyGoal(lambda _: None, configuration.latency.times)
    shares = _shares_section(response, lambda workload: goal.times(workload, snapshot.measured))
    sections = (section, shares, *_list_sections(response, hypothesis, configuration))
    return Explanation(
        "What would be done",
        (first, *lines, *others),
        tuple(each for each in sections if each is not None),
    )


def _describe_result(response: WhatIfResponse, settings: SuggesterSettings) -> Iterator[Words]:
    moves = len(response.moves)
    missing = sum(each.missing for each in response.shares.values())
    before = sum(each.missing_now for each in response.shares.values())
    met = "every QoS target is met" + (f" (now, {before} missing)" if before else "")
    if missing:
        met = f"{counted(missing, 'pod')} would be missing at the edge (now, {before})"
    restarted = sum(bool(each.source) for each in response.placed)
    restarts = f"{counted(restarted, 'pod')} would start again" if restarted else ""
    if moves:
        migrated = f"{counted(moves, 'pod')} would be migrated"
        yield (f"{', and '.join(filter(None, (restarts, migrated)))}; then {met}.",)
    else:
        yield (f"{restarts or 'Nothing would be migrated'}, and {met}.",)
    stuck = [placed for placed in response.placed if not placed.node]
    if stuck:
        yield (f"{counted(len(stuck), 'pod')} would wait: no node is feasible.",)
    if response.gone:
        number = counted(len(response.gone), "pod")
        yield (f"{number} without a controller would stop, and nothing starts the pods again.",)
    if moves >= settings.max_moves:
        yield (f"No more than {settings.max_moves} are migrated at a time; others may follow.",)
    if moves and settings.mode != "apply":
        yield (f"suggester.mode is {settings.mode}: migrations need an approval.",)
    if response.proven:
        yield ("Certificate: proven; no other migrations within the limits would be better.",)
    else:
        gap = f": {response.gap}" if response.gap else ""
        yield (f"Certificate: not proven, there may be better migrations{gap}.",)


def _list_sections(
    response: WhatIfResponse, hypothesis: Hypothesis, configuration: Configuration
) -> Iterator[Section]:
    if response.moves:
        rows = (
            (
                m.pod if m.added else link("pod", m.pod),
                _link_node(m.source, hypothesis),
                _link_node(m.target, hypothesis),
                m.purpose,
            )
            for m in response.moves[:_SHOWN]
        )
        yield Section("Migrations", table=table(("pod", "from", "to", "reason"), rows))
    if any(each.node for each in response.placed):
        placements = _placements_table(response.placed, hypothesis)
        yield Section("Pods that would be scheduled", table=placements)
    stuck = [each for each in response.placed if not each.node]
    if stuck:
        why = ((each.pod, each.message) for each in stuck[:_SHOWN])
        yield Section("Pods that would wait", table=table(("pod", "why"), why))
    if response.gone:
        gone = ((link("pod", each),) for each in response.gone[:_SHOWN])
        yield Section("Pods that would stop", table=table(("pod",), gone))
    if response.left:
        left = ((link("pod", each.pod), each.message) for each in response.left[:_SHOWN])
        yield Section("Pods not migrated", table=table(("pod", "why"), left), folded=True)
    if hypothesis.qos or hypothesis.latency:
        yield Section(
            "Lines for the ConfigMap",
            (("In config.yaml, these replace the same keys of services.",),),
            code=_config_lines(hypothesis, configuration),
            folded=True,
        )


def _shares_section(
    response: WhatIfResponse, times_of: Callable[[Workload], ResponseTimes]
) -> Section:
    """List shares and response times before and after, workloads with a change first."""

    def row(workload: Workload, each: ShareThen) -> tuple[Link | str, ...]:
        times = times_of(workload)
        return (
            link("workload", workload),
            f"{each.now.edge} of {each.now.total}",
            f"{each.then.edge} of {each.then.total}",
            f"{each.wanted} ({percent(each.qos_target)})",
            _mean_time(each.now, times),
            _mean_time(each.then, times),
        )

    shares = sorted(
        response.shares.items(), key=lambda item: (item[1].now == item[1].then, item[0])
    )
    headings = (
        "workload", "at the edge now", "then", "target then", "response time now", "then",
    )  # fmt: skip
    note = (
        "Response times are means by edge share, of the measured times of each tier, or else of"
        " latency.edge and latency.cloud."
    )
    rows = table(headings, (row(*each) for each in shares))
    return Section("Edge shares and response times", ((note,),), rows)


def _mean_time(share: Share, times: ResponseTimes) -> str:
    return f"{1000 * times.mean(share):.0f} ms" if share.total else ""


def _link_node(name: str, hypothesis: Hypothesis) -> Link | str:
    """Return a link to a node; the plain name for an added node."""
    added = any(name.startswith(f"{model}-added-") for model, _ in hypothesis.added)
    return name if added else link("node", name)


def _placements_table(placed: Sequence[Placed], hypothesis: Hypothesis) -> Table | None:
    counts = Counter((each.workload, each.source, each.node) for each in placed if each.node)
    return table(
        ("workload", "pods", "from", "to"),
        (
            (
                link("workload", workload),
                str(number),
                link("node", source) if source else "",
                _link_node(node, hypothesis),
            )
            for (workload, source, node), number in sorted(counts.items())
        ),
    )


def _config_lines(hypothesis: Hypothesis, configuration: Configuration) -> str:
    services = hypothesis.configure(configuration).services
    names = (name for name, _ in (*hypothesis.qos, *hypothesis.latency))
    said = {name: write_section(services[name]) for name in names}
    return msgspec.yaml.encode({"services": said}).decode()
