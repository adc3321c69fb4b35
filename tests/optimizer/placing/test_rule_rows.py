"""Rules as rows: what they allow is what can come about, whoever comes first."""

import math
import random

import attrs
import numpy as np
import pytest

from kubedsm.model.deadline import NO_DEADLINE
from kubedsm.model.model import Tier
from kubedsm.objective.objective import Objective
from kubedsm.optimizer.matching.problem import PlacementProblem, group_ruled_kinds
from kubedsm.optimizer.placing.batch_mip import build_programme
from kubedsm.optimizer.placing.immediate import rank_pods
from kubedsm.optimizer.placing.ruled import RuleRows, sample_classes
from kubedsm.optimizer.placing.split import list_demands
from kubedsm.optimizer.programming.in_order import maximise_in_order
from kubedsm.optimizer.programming.programme import Status
from kubedsm.plugins.feasibility import Feasibility
from kubedsm.solvers.available import Highs
from support import drawing
from support.placement_literal import half_or_all, most_served
from support.rule_instances import HOST, ZONE, app, cluster, drawn_batch, near, pod, zoned
from support.ruled_instances import ruled_batch


@attrs.frozen
class Posed:
    """The programme of a batch, with rows for the rules, or without."""

    snapshot: object
    batch: object
    sound: bool = False
    with_rules: bool = True

    @property
    def rules(self):
        feasibility = Feasibility.of(self.snapshot)
        ranks = rank_pods(self.batch, self.snapshot.at, math.inf)
        surroundings = self.snapshot.surroundings
        kinds = group_ruled_kinds(self.batch, feasibility, surroundings, ranks, distinguish=True)
        tiers = Tier.EDGE, Tier.CLOUD
        packings = [PlacementProblem.of(kinds, self.snapshot.in_turn(tier)) for tier in tiers]
        return attrs.evolve(RuleRows.of(feasibility, *packings), sound=self.sound), packings

    def choice(self):
        rules, (edge, cloud) = self.rules
        return build_programme(
            edge,
            cloud,
            list_demands(edge, self.snapshot.census.shares, half_or_all, Objective()),
            Objective(),
            rules.add if self.with_rules else None,
        )

    def served(self):
        """How many can be placed, by priority."""
        made = self.choice()
        goals = [goal for goal in made.goals if goal.name.startswith("pods")]
        found = maximise_in_order(made.programme, goals, Highs(), NO_DEADLINE)
        assert found.proven
        return [certificate.value for certificate in found.certificates]

    def allows(self, homes):
        """Whether the batch may be there; of pods that are alike it is all the same which."""
        made, (_, (edge, cloud)) = self.choice(), self.rules
        programme = made.programme
        names = [node.name for node in (*edge.nodes, *cloud.nodes)]
        for node, name in enumerate(names):
            for kind, alike in enumerate(edge.kinds):
                number = sum(homes.get(p.uid) == name for p in alike.pods)
                weights = np.zeros(len(programme.upper), dtype=np.int64)
                weights[made.loads[node, kind]] = 1
                programme = programme.at_least(weights, number).at_least(-weights, -number)
        nothing = np.zeros(len(programme.upper), dtype=np.int64)
        return Highs().maximise(programme, nothing, NO_DEADLINE).status is Status.OPTIMAL


def come_about(snapshot, batch, rng):
    """Where pods are that came in some order, each somewhere where it may be."""
    feasibility, homes = Feasibility.of(snapshot), {}
    for p in rng.sample(batch, len(batch)):
        nodes = feasibility.feasible(p)
        if nodes:
            homes[p.uid] = rng.choice(nodes)
            feasibility = feasibility.with_pod(p, homes[p.uid])
    return homes


@pytest.mark.parametrize("drawn", [drawn_batch, ruled_batch])
def test_whatever_comes_about_keeps_the_rows(drawn):
    for seed in drawing.drawn(range(60)):
        snapshot, batch = drawn(seed)
        homes = come_about(snapshot, batch, random.Random(seed))
        assert Posed(snapshot, batch).allows(homes), seed


def small(seed):
    return ruled_batch(seed, least=3, most=6, edge=(1, 2), cloud=(1, 2))


@pytest.mark.parametrize("drawn", [drawn_batch, small])
def test_the_rows_allow_no_more_than_can_come_about(drawn):
    """As to the number of pods; and pods that keep their rules in the end are hardly ever fewer."""
    played = fewer = needless = 0
    for seed in drawing.drawn(range(60), one_in=6):
        snapshot, batch = drawn(seed)
        if len(batch) <= 6 and len(snapshot.nodes) <= 5:
            played += 1
            most = most_served(snapshot, batch)
            assert Posed(snapshot, batch).served() == most, seed
            fewer += Posed(snapshot, batch, sound=True).served() < most
            needless += Posed(snapshot, batch, with_rules=False).served() == most
    assert fewer <= 1 + played // 20
    assert 0 < needless < played


def test_rules_that_concern_nobody_are_left_out():
    snapshot, batch = ruled_batch(0)
    whole, none = Posed(snapshot, batch), Posed(snapshot, batch, with_rules=False)
    assert len(none.choice().programme.least) < len(whole.choice().programme.least)


def chosen(nodes, waiting, *others, few):
    """The names of the few."""
    snapshot = cluster(nodes, [*others, *waiting])
    feasibility = Feasibility.of(snapshot)
    kinds = group_ruled_kinds(waiting, feasibility, snapshot.surroundings, distinguish=True)
    packing = PlacementProblem.of(kinds, snapshot.in_turn(Tier.EDGE))
    likes = [feasibility.equivalence(kind.pods[0]) for kind in kinds]
    few = sample_classes(packing, likes, feasibility.scene, few)
    return {packing.nodes[at].name for at in np.flatnonzero(few)}


def test_one_of_each_sort_comes_before_a_second():
    """Zones and room make a sort, names do not, and neither do hosts, but for who is there."""
    nodes = [
        *(zoned(f"e{n}", "x") for n in range(4)),
        *(zoned(f"f{n}", "y") for n in range(3)),
        zoned("large", "x", cpu=8),
        zoned("home", "x", cpu=5, memory=9, pods=111),
        zoned("other", "x", cpu=4.5),
    ]
    together = near(app("a"), key=HOST), near(app("a"), key=ZONE)
    there = [pod("old", {"app": "a"}, on="home"), pod("q", on="other")]
    waiting = [pod(f"p{n}", {"app": "a"}, affinity=together) for n in range(9)]
    few = chosen(nodes, waiting, *there, few=5)
    assert few >= {"home", "large", "other"}
    assert [sum(name.startswith(of) for name in few) for of in "ef"] == [1, 1]


def test_all_of_them_if_there_are_no_more():
    nodes = [zoned(f"e{n}") for n in range(3)]
    assert len(chosen(nodes, [pod("p", {"app": "a"})], few=9)) == 3
