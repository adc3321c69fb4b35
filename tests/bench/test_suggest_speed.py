"""The size that `suggest` was promised to be quick on: how quick is for `kubedsm bench suggest`."""

import pytest

from kubedsm_lab.bench.suggest import LARGE, large_instance, run, timed_large


def test_two_hundred_pods_on_twenty_nodes():
    shot = large_instance(1)
    edge = {node.name for node in shot.nodes.values() if node.tier == "edge"}
    assert len(edge) == LARGE.nodes
    assert sum(pod.node_name in edge for pod in shot.pods.values()) >= LARGE.pods * 0.9
    assert len(shot.shares()) == LARGE.services
    for algorithm in ("exact", "paper"):
        _, moves, proven = timed_large(1, algorithm)
        assert moves > 0
        assert proven == (algorithm == "exact")


def test_the_bench_runs_both_sides_and_finds_that_they_agree():
    result = run(pods=10, candidates=4, reorders=2, sample=4, exact_pods=5, large=2)
    told = result.as_json()
    assert told["paper"]["literalChoices"] == 16
    assert told["paper"]["literalChoicesRun"] == 4
    assert told["exact"]["moves"] == result.exact.moves > 0
    assert told["large"]["instances"] == 2
    assert told["large"]["worstMs"] == pytest.approx(result.large.worst * 1e3, abs=0.1)
