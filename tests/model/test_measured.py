"""What was measured, as the mirror is told of it."""

import attrs
import pytest

from kubedsm.model.events import MeasuredApplied, PodApplied, PodDeleted
from kubedsm.model.measured import NOTHING_MEASURED, Answers, Measured, Usage
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import Tier, Workload
from support.placement_instances import pod, resources

FIRST, SECOND = (Measured(at, {"n0": Usage(cpu=100.0 * at)}) for at in (30.0, 60.0))


def test_a_sample_knows_where_pods_were_and_the_one_before_it():
    mirror = ClusterMirror()
    early, late = (pod(name, "web", resources(1), on="n0") for name in ("a", "b"))
    mirror.apply(PodApplied(early))
    mirror.apply(MeasuredApplied(FIRST))
    mirror.apply(PodApplied(late))
    measured = mirror.snapshot().measured
    assert dict(measured.placed) == {early.uid: "n0"}
    assert measured.before is None
    mirror.apply(MeasuredApplied(SECOND))
    measured = mirror.snapshot().measured
    assert (measured.nodes, measured.at) == (SECOND.nodes, 60.0)
    assert dict(measured.placed) == {early.uid: "n0", late.uid: "n0"}
    assert measured.before.nodes == FIRST.nodes
    mirror.apply(MeasuredApplied(FIRST))
    assert mirror.snapshot().measured.before.before is None


def test_a_sample_knows_who_came_and_left_within_its_window():
    mirror = ClusterMirror()

    def sampled(at):
        mirror.apply(MeasuredApplied(Measured(at, window=50.0)))
        sample = mirror.snapshot().measured
        return dict(sample.came), dict(sample.left)

    for name, on in (("a", "n0"), ("b", "n1")):
        mirror.apply(PodApplied(pod(name, "web", resources(1), on=on)))
    assert sampled(30.0) == ({}, {})
    mirror.apply(PodApplied(pod("c", "web", resources(1), on="n2")))
    assert sampled(60.0) == ({"uid-c": 60.0}, {})
    mirror.apply(PodDeleted("uid-b", "shop", "b"))
    assert sampled(90.0) == ({"uid-c": 60.0}, {"n1": 90.0})
    assert sampled(120.0) == ({}, {"n1": 90.0})
    mirror.apply(PodApplied(pod("d", "web", resources(1), on="n2")))
    assert sampled(130.0) == ({"uid-d": 130.0}, {"n1": 90.0})
    mirror.apply(PodDeleted("uid-d", "shop", "d"))
    assert sampled(140.0) == ({}, {"n2": 140.0})
    # The clock was set back.
    assert sampled(40.0) == ({}, {})


def test_once_nothing_is_known_what_was_is_forgotten():
    mirror = ClusterMirror()
    mirror.apply(MeasuredApplied(FIRST))
    mirror.apply(MeasuredApplied(NOTHING_MEASURED))
    assert mirror.snapshot().measured == NOTHING_MEASURED
    mirror.apply(MeasuredApplied(SECOND))
    assert mirror.snapshot().measured.before is None


WEB = Workload("shop", "Deployment", "web")
#: what a sample says of it: seconds at the edge and in the cloud, and requests/s
SLOWER, FASTER, ALIKE = (0.3, 0.2, 5.0), (0.1, 0.2, 5.0), (0.21, 0.2, 5.0)
HARDLY_ASKED, IN_ONE_TIER, NOTHING = (0.3, 0.2, 0.01), (0.3, None, 5.0), None


def sample(at, said):
    if said is None:
        return Measured(at)
    edge, cloud, rate = said
    tiers = {Tier.EDGE: edge, Tier.CLOUD: cloud}
    answers = {tier: Answers(rate, s) for tier, s in tiers.items() if s is not None}
    return Measured(at, answers={WEB: answers})


@pytest.mark.parametrize(
    ("told", "slower"),
    [
        ([SLOWER], [0]),
        ([SLOWER, SLOWER, SLOWER], [0, 1, 1]),
        ([SLOWER, ALIKE, SLOWER, FASTER, SLOWER], [0, 0, 0, 0, 0]),
        ([SLOWER, SLOWER, FASTER, SLOWER, FASTER, FASTER], [0, 1, 1, 1, 1, 0]),
        ([SLOWER, SLOWER, ALIKE, ALIKE, ALIKE], [0, 1, 1, 1, 1]),
        ([HARDLY_ASKED, HARDLY_ASKED], [0, 0]),
        ([(*SLOWER[:2], 0.33)] * 2, [0, 0]),
        ([(*SLOWER[:2], 0.34)] * 2, [0, 1]),
        ([IN_ONE_TIER, IN_ONE_TIER], [0, 0]),
        # All its pods may have come to one tier since.
        ([SLOWER, SLOWER, IN_ONE_TIER, IN_ONE_TIER], [0, 1, 1, 1]),
        ([SLOWER, SLOWER, HARDLY_ASKED, HARDLY_ASKED], [0, 1, 1, 0]),
        ([SLOWER, SLOWER, NOTHING, NOTHING, SLOWER], [0, 1, 1, 0, 0]),
    ],
)
def test_the_edge_is_slower_by_two_samples_that_say_so_until_two_say_it_is_not(told, slower):
    mirror, seen = ClusterMirror(), []
    for at, said in enumerate(told, 1):
        mirror.apply(MeasuredApplied(sample(30.0 * at, said)))
        seen.append(len(mirror.snapshot().measured.slower))
    assert seen == slower


def test_answers_that_were_told_before_are_no_second_sample():
    mirror = ClusterMirror()
    first = sample(30.0, SLOWER)
    mirror.apply(MeasuredApplied(first))
    mirror.apply(MeasuredApplied(attrs.evolve(first, at=60.0)))
    assert not mirror.snapshot().measured.slower
    mirror.apply(MeasuredApplied(sample(90.0, SLOWER)))
    assert mirror.snapshot().measured.slower == {WEB}
    mirror.apply(MeasuredApplied(attrs.evolve(sample(90.0, SLOWER), at=120.0)))
    assert mirror.snapshot().measured.slower == {WEB}
