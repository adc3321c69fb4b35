import attrs
import pytest

from kubedsm.bench.instances import DisagreementError
from kubedsm.bench.scale.paired import paired
from kubedsm.bench.scale.run import run
from kubedsm.bench.scale.world import Batch, Size, mirror, rebuilt


def test_each_size_is_read_decided_and_suggested_by_both_sides():
    results = list(run([Size(8, 40), Size(4, 20)], rounds=1, suggestions=1))
    assert [result.size for result in results] == [Size(8, 40), Size(4, 20)]
    for result in results:
        shown = result.as_json()["paired"]
        assert [each["what"] for each in shown] == [
            "parse 200 watch lines",
            "list all pods",
            "decide 1 pod",
            "decide 200 pods of 8 classes",
            "decide 500 pods of 1 class",
            "decide 500 pods of 8 classes",
            "suggest",
        ]
        assert all(each["ms"] > 0 and each["ratio"] > 0 for each in shown)


def test_the_cluster_is_of_the_size_and_the_batch_of_the_classes_asked_for():
    known = mirror(Size(8, 40))
    known.check_invariants()
    seen = known.snapshot()
    assert (len(seen.nodes), len(seen.pods)) == (8, 40)
    assert len({pod.pod_class for pod in Batch(20, 3).waiting()}) == 3


def test_nothing_that_was_kept_along_is_left_in_what_is_rebuilt():
    seen = mirror(Size(8, 40)).snapshot()
    anew = rebuilt(seen)
    assert anew == seen
    kept = {field.name for field in attrs.fields(type(seen)) if not field.eq}
    assert kept
    assert all(not getattr(anew, name) for name in kept)


def test_sides_that_come_to_different_things_are_not_compared():
    answers = iter(range(10))
    with pytest.raises(DisagreementError, match="odd"):
        paired("odd", 1, lambda: next(answers), lambda: next(answers))
