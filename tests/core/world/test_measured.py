"""What was measured, as the mirror is told of it."""

from kubedsm.core.world.events import MeasuredApplied, PodApplied
from kubedsm.core.world.measured import NOTHING_MEASURED, Measured, Usage
from kubedsm.core.world.mirror import ClusterMirror
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


def test_once_nothing_is_known_what_was_is_forgotten():
    mirror = ClusterMirror()
    mirror.apply(MeasuredApplied(FIRST))
    mirror.apply(MeasuredApplied(NOTHING_MEASURED))
    assert mirror.snapshot().measured == NOTHING_MEASURED
    mirror.apply(MeasuredApplied(SECOND))
    assert mirror.snapshot().measured.before is None


def test_a_sample_is_a_change():
    mirror = ClusterMirror()
    mirror.apply(MeasuredApplied(FIRST))
    assert mirror.changes == 1
