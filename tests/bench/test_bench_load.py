from kubedsm_lab.bench.load import run


def test_the_bench_has_load_decide_where_pods_go():
    result = run(pods=12, nodes=20, existing=40).as_json()
    assert set(result) == {"plain", "rules", "alone"}
    assert result["plain"]["pods"] == result["rules"]["pods"] == 12
    assert result["plain"]["elsewhere"] > 0
    assert all(figures["ratio"] > 0 for figures in result.values())
