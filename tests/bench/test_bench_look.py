from kubedsm_lab.bench.look import run


def test_the_bench_sees_what_changes_as_it_is():
    """Whatever is told of changes is compared with what is there."""
    result = run(nodes=10, pods=60, changes=4).as_json()
    assert (result["nodes"], result["pods"]) == (10, 60)
    assert result["rows"] >= 2
    assert result["ratio"] > 0
