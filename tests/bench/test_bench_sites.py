from kubedsm_lab.bench.sites import Outage, play


def test_knowing_of_sites_spares_pods_and_costs_no_capacity():
    outage = Outage("cut", 1, away=500.0, after=200.0)
    ours, beside = (play(outage, scheduler) for scheduler in ("kubedsm", "without sites"))
    assert ours.evicted == beside.evicted == 8
    assert 0 < ours.needless < beside.needless
    assert ours.serving == ours.wanted
