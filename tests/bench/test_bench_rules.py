from kubedsm_lab.bench.rules import run


def test_the_bench_places_what_the_literal_rules_allow():
    result = run(pods=15, nodes=20, existing=40, feasibility_nodes=30, alike=(12, 6, 20, 40))
    assert result.mixed.placed == 15
    assert result.mixed.decision_ms > 0
    assert result.feasibility_ms > 0
    assert result.literal_feasibility_ms > 0
    shown = result.as_json()
    assert shown["placed"] == 15
    assert shown["even"]["placed"] == 12
    assert shown["apart"]["placed"] == 6
    assert shown["feasibility"]["nodes"] == 30
