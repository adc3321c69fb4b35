from kubedsm_lab.bench.queue import run


def test_the_bench_compares_both_sides_and_counts_what_is_written():
    shown = run(pods=30, classes=3, nodes=4, events=400, minutes=6).as_json()
    assert shown["eventUs"] > 0
    assert shown["everyPodAskedUs"] > 0
    assert shown["everyPodAskedEvents"] == 37
    assert shown["firstWrites"] == 60
    assert set(shown["writesPerMinute"]) == {"PATCH events"}
