"""What stays open to a batch while pods of it come and go, beside asking all rules anew."""

import random

from kubedsm.optimizer.placing.settling import OpenNodes
from kubedsm.plugins.feasibility import Feasibility
from support import drawing
from support.rule_instances import drawn, drawn_batch

INSTANCES = 300


def crowds(seed):
    """Pods of a batch that are put and taken anywhere: what is known, beside the rules."""
    rng = random.Random(seed)
    shot, batch = drawn(seed) if seed % 2 else drawn_batch(seed)
    rules = Feasibility.of(shot)
    known, skews = OpenNodes(rules, shot.surroundings, batch), rules.skews(batch)
    homes = {}
    for _ in range(12):
        each = rng.choice(batch)
        for other in batch:
            if rng.random() < 0.5:  # so that it is remembered, for a while
                known.of(other)
        if each.uid in homes:
            node = homes.pop(each.uid)
            known.take(each, node)
            rules = rules.without_pod(each.uid)
        else:
            node = homes[each.uid] = rng.choice(rules.index.names)
            known.put(each, node)
            rules = rules.with_pod(each, node)
        by = 1 if each.uid in homes else -1
        skews.change(known.like(each), rules.index.positions[node], by)
        if rng.random() < 0.5:
            yield [p for p in batch if p.uid not in homes], known, skews, rules


def test_a_node_takes_a_pod_if_it_is_open_has_the_room_and_is_even():
    closed = 0
    for seed in drawing.drawn(range(INSTANCES)):
        for out, known, skews, rules in crowds(seed):
            for each in out:
                found = known.of(each) & skews.open(known.like(each))
                found = found & ~rules.room.short(each.requests)
                assert (found == rules.taking(each)).all(), seed
                closed += not found.all()
    assert closed > 500
