from kubedsm.bench.rules import run


def test_the_bench_places_what_the_literal_rules_allow():
    result = run(pods=15, nodes=20, existing=40, feasibility_nodes=30)
    assert result.placed == 15
    assert result.decision_ms > 0
    assert result.feasibility_ms > 0
    assert result.literal_feasibility_ms > 0
    shown = result.as_json()
    assert shown["placed"] == 15
    assert shown["feasibility"]["nodes"] == 30
