from kubedsm_lab.bench.rules import Case, apart, both, even, run


def test_every_batch_is_placed_next_to_the_same_pods_without_rules():
    cases = [
        Case("mixed", 15, 20, 40),
        Case("even", 12, 20, 40, even, 1, both),
        Case("apart", 6, 20, 40, apart, 1, both),
    ]
    figures = run(cases).figures
    assert {name: of["placed"] for name, of in figures.items()} == {
        "mixed": 15,
        "even": 12,
        "apart": 6,
    }
    assert all(of["withoutRulesMs"] > 0 and of["ratio"] > 0 for of in figures.values())
