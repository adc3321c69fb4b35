"""What if a node is drained: what PodDisruptionBudgets allow, and what blocks the drain."""

import aiohttp
import attrs
import pytest

from kubedsm.config.settings import load
from kubedsm.dashboard.server.drain_budgets import DrainBudgets
from kubedsm.dashboard.server.what_if import explain_what_if
from kubedsm.kube.client.port import Forbidden
from kubedsm.model.events import NodeApplied, PodApplied
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import Tier
from kubedsm.model.selecting import Budget
from kubedsm.objective.lasting import Quiet
from kubedsm.planner.hypothesis import Hypothesis
from kubedsm.planner.requests import PlanningContext
from kubedsm.planner.what_if import WhatIfRequest
from support.asked import lines_of, section
from support.fixed_clock import FixedClock
from support.placement_instances import node, pod, resources
from support.watched import watched

CONFIGURATION = load("services: {'*': {qos: 0}}", "test")
ALL = ()


def answer(*budgets, cloud=9, drained="e1", unread=""):
    """Answer what a drain would do to three pods on e1, with a cloud of so many cores."""
    mirror = ClusterMirror(CONFIGURATION.scheduler_name, CONFIGURATION.tiers)
    for name, tier, cpu in (("e1", Tier.EDGE, 3), ("c1", Tier.CLOUD, cloud)):
        mirror.apply(NodeApplied(node(name, tier, cpu, labels={"nodetype": tier.value})))
    for number in range(3):
        made = pod(f"web-{number}", "web", resources(1), on="e1")
        mirror.apply(PodApplied(attrs.evolve(made, phase="Running", ready=True)))
    policy, snapshot = CONFIGURATION.policy, mirror.snapshot()
    known = PlanningContext(mirror, (), lambda: CONFIGURATION, lambda: policy, FixedClock())
    there, hypothesis = DrainBudgets(budgets, unread), Hypothesis(drained=frozenset({drained}))
    hypothesis = attrs.evolve(hypothesis, kept=there.list_kept(hypothesis, snapshot))
    found = WhatIfRequest(frozenset(), frozenset(), Quiet(), 2.0, hypothesis=hypothesis)
    response = found.solve(known)
    explained = explain_what_if(response, hypothesis, snapshot, CONFIGURATION, there)
    return len(response.placed), lines_of(explained), section(explained, "PodDisruptionBudgets")


def budget(allowed, desired, expected=3, name="web", namespace="shop", selector=ALL):
    return Budget(namespace, name, selector, desired, expected, allowed)


def test_a_drain_goes_in_rounds_of_as_many_evictions_as_the_budget_allows():
    restarted, lines, rows = answer(budget(2, 1))
    assert restarted == 3
    assert rows == ["shop/web | shop/web | 3 | 2 | 2 rounds, as replacements are Ready"]
    assert not [line for line in lines if "Budget" in line]
    assert answer(budget(3, 0))[2] == ["shop/web | shop/web | 3 | 3 | at once"]
    assert answer(budget(9, 0))[2] == ["shop/web | shop/web | 3 | 3 | at once"]


@pytest.mark.parametrize(
    ("budgets", "cloud", "restarted", "effect"),
    [
        ([budget(0, 3)], 9, 0, "no eviction is ever allowed, 3 of 3 pods must be healthy"),
        ([budget(0, 2)], 9, 3, "no eviction is allowed now: 2 of 3 pods must be healthy"),
        (
            [budget(1, 2)], 2, 3,
            "it ends after 1 eviction, because no node is feasible for 1 replacement",
        ),
        (
            [budget(1, 2), budget(1, 2, name="other")], 9, 0,
            "pods with two budgets cannot be evicted: shop/web-0, shop/web-1, shop/web-2",
        ),
    ],
)  # fmt: skip
def test_the_answer_names_the_budget_and_the_workload_that_block(budgets, cloud, restarted, effect):
    placed, lines, rows = answer(*budgets, cloud=cloud)
    assert placed == restarted
    blocks = f"PodDisruptionBudget shop/web blocks the drain: {effect}; it covers shop/web."
    assert lines[1] == blocks
    assert effect in rows[0]


def test_budgets_that_cover_no_drained_pod_are_left_out():
    others = budget(0, 3, namespace="other"), budget(0, 3, selector=None)
    assert answer(*others) == answer()
    assert answer(budget(0, 3), drained="c1") == answer(drained="c1")
    assert answer(unread="it may not list them")[1][1] == (
        "PodDisruptionBudgets are not considered: it may not list them."
    )


@pytest.mark.http
async def test_the_page_reads_the_budgets_of_a_drain(monkeypatch):
    async with watched() as (there, url), aiohttp.ClientSession() as session:
        world = there.world
        world.deploy("half", 2)
        await world.until_bound(2, 10)
        world.budget("half", "never", minAvailable=5)

        async def ask(change):
            async with session.get(f"{url.rstrip('/')}/page/what-if?{change}") as found:
                told = await found.json()
                return [part["title"] for part in told["sections"]], str(told["lines"])

        titles, lines = await ask("drain=e1")
        assert titles[0] == "PodDisruptionBudgets"
        assert "default/never blocks the drain" in lines
        titles, lines = await ask("lose=e1")
        assert "PodDisruptionBudgets" not in titles

        async def refuse(cluster):
            raise Forbidden(403, "Forbidden", "no right")

        monkeypatch.setattr("kubedsm.dashboard.server.questions.list_budgets", refuse)
        assert "are not considered: " in (await ask("drain=e1"))[1]
