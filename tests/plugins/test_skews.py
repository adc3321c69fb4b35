"""What pods that come do to the rules of those that came, beside asking each rule anew."""

import random

import attrs

from kubedsm.plugins.feasibility import Feasibility
from support import drawing
from support.rule_instances import HOST, ZONE, app, cluster, evenly, pod, zoned

INSTANCES = 400


@attrs.frozen
class Crowd:
    """A cluster into which pods came wherever their own rules allowed it then."""

    feasibility: Feasibility
    skews: object
    homes: dict
    #: the pods that came, and one that did not
    came: list
    last: object

    def kept(self, feasibility, member):
        home = self.homes[member.uid]
        return feasibility.without_pod(member.uid).rejection(member, home) is None


def crowded(seed, rules):
    rng = random.Random(seed)
    nodes = [zoned(f"n{i}", rng.choice(("x", "x", "y", "z", None)), cpu=64) for i in range(4)]
    pods = [pod(f"p{i}", {"app": rng.choice("abc")}, **rules(rng)) for i in range(7)]
    feasibility = Feasibility.of(cluster(nodes, pods))
    skews = feasibility.skews(pods)
    homes, came = {}, []
    for each in pods[:-1]:
        taking = feasibility.feasible(each)
        skews.upset(feasibility.equivalence(pods[-1]))  # so that it is remembered
        if taking:
            home = homes[each.uid] = rng.choice(taking)
            came.append(each)
            skews.change(feasibility.equivalence(each), int(home[1:]), 1)
            feasibility = feasibility.with_pod(each, home)
    return Crowd(feasibility, skews, homes, came, pods[-1])


def selector(rng):
    return rng.choice((None, (), app(rng.choice("abc")), app(*rng.sample("abc", 2))))


def spread(rng):
    return {
        "spread": tuple(
            evenly(
                selector(rng),
                rng.choice((ZONE, HOST)),
                rng.choice((1, 2)),
                min_domains=rng.choice((1, 1, 2, 4)),
            )
            for _ in range(rng.choice((0, 1, 2)))
        )
    }


def test_what_is_uneven_is_what_would_not_be_let_in_again():
    uneven = 0
    for seed in drawing.drawn(range(INSTANCES)):
        crowd = crowded(seed, spread)
        broken = [
            crowd.skews.broken(crowd.feasibility.equivalence(each), int(crowd.homes[each.uid][1:]))
            for each in crowd.came
        ]
        assert broken == [not crowd.kept(crowd.feasibility, each) for each in crowd.came], seed
        assert crowd.skews.all_kept is not any(broken), seed
        uneven += sum(broken)
    assert uneven > 5


def test_where_a_pod_may_come_and_whom_it_would_upset_is_what_the_rules_say():
    upsets = 0
    for seed in drawing.drawn(range(INSTANCES), one_in=6):
        crowd = crowded(seed, spread)
        like = crowd.feasibility.equivalence(crowd.last)
        refused = crowd.feasibility.rejections(crowd.last)
        for at, node in enumerate(crowd.feasibility.nodes):
            labelled = all(c.topology_key in node.labels for c in crowd.last.pod_class.rules.spread)
            assert (crowd.skews.open(like)[at] and labelled) == (node.name not in refused), seed
            after = crowd.feasibility.with_pod(crowd.last, node.name)
            sound = [each for each in crowd.came if crowd.kept(crowd.feasibility, each)]
            upset = any(not crowd.kept(after, each) for each in sound)
            if len(sound) == len(crowd.came):
                assert crowd.skews.upset(like)[at] == upset, seed
                upsets += upset
    assert upsets > 5


def test_a_pod_that_leaves_leaves_nothing_behind():
    for seed in drawing.drawn(range(INSTANCES), one_in=6):
        crowd = crowded(seed, spread)
        for each in crowd.came:
            like = crowd.feasibility.equivalence(each)
            crowd.skews.change(like, int(crowd.homes[each.uid][1:]), -1)
        empty = crowded(seed, spread).feasibility
        for each in crowd.came:
            empty = empty.without_pod(each.uid)
        like = empty.equivalence(crowd.last)
        fresh = empty.skews([crowd.last])
        assert (crowd.skews.open(like) == fresh.open(like)).all(), seed
        assert not crowd.skews.upset(like).any(), seed
