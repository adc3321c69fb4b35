"""Skews that are kept as pods come, beside asking each pod's rules anew."""

import random
from collections import Counter

from kubedsm.plugins.feasibility import Feasibility
from support import drawing
from support.rule_instances import HOST, ZONE, app, cluster, evenly, pod, zoned


def spread(rng):
    """Up to two constraints of one pod."""
    selectors = (None, (), app(rng.choice("abc")), app(*rng.sample("abc", 2)))
    return tuple(
        evenly(
            rng.choice(selectors),
            rng.choice((ZONE, HOST)),
            rng.choice((1, 2)),
            min_domains=rng.choice((1, 1, 2, 4)),
        )
        for _ in range(rng.choice((0, 1, 2)))
    )


def test_what_is_uneven_and_whom_a_pod_would_upset_is_what_the_rules_say():
    seen = Counter()
    for seed in drawing.drawn(range(400)):
        rng = random.Random(seed)
        nodes = [zoned(f"n{i}", rng.choice(("x", "x", "y", "z", None)), cpu=64) for i in range(4)]
        pods = [pod(f"p{i}", {"app": rng.choice("abc")}, spread=spread(rng)) for i in range(7)]
        *came, last = pods
        rules = Feasibility.of(cluster(nodes, pods))
        skews, homes, like = rules.skews(pods), {}, rules.equivalence
        for each in came:
            skews.upset(like(last))  # so that it is remembered
            if taking := rules.feasible(each):
                home = homes[each.uid] = rng.choice(taking)
                skews.change(like(each), int(home[1:]), 1)
                rules = rules.with_pod(each, home)

        def is_kept(state, member, homes=homes):
            home = homes[member.uid]
            return state.without_pod(member.uid).rejection(member, home) is None

        came = [each for each in came if each.uid in homes]
        broken = [not is_kept(rules, each) for each in came]
        found = [skews.broken(like(each), int(homes[each.uid][1:])) for each in came]
        assert found == broken, seed
        assert skews.all_kept is not any(broken), seed
        seen["uneven"] += any(broken)
        for at, node in enumerate(rules.nodes):
            after = rules.with_pod(last, node.name)
            upset = not all(is_kept(after, each) for each in came)
            assert any(broken) or skews.upset(like(last))[at] == upset, seed
            seen["upset"] += upset and not any(broken)
    assert min(seen["uneven"], seen["upset"]) > 5, seen
