"""The size that `suggest` must be quick on; `kubedsm bench suggest` measures how quick."""

from kubedsm_lab.bench.suggest import LARGE, large_instance, run, time_suggestion


def test_two_hundred_pods_on_twenty_nodes():
    shot = large_instance(1)
    edge = {node.name for node in shot.nodes.values() if node.tier == "edge"}
    assert len(edge) == LARGE.nodes
    assert sum(pod.node_name in edge for pod in shot.pods.values()) >= LARGE.pods * 0.9
    assert len(shot.shares()) == LARGE.services
    for algorithm in ("exact", "paper"):
        found, _ = time_suggestion(1, algorithm)
        assert found.moves
        assert found.proven == (algorithm == "exact")


def test_the_bench_times_both_suggesters():
    figures = run(2).figures
    assert figures["instances"] == 2
    assert (figures["exact"]["proven"], figures["paper"]["proven"]) == (2, 0)
    assert figures["exact"]["gain"] >= figures["paper"]["gain"]
    assert 0 < figures["exact"]["medianMs"] <= figures["exact"]["worstMs"]
