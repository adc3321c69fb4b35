"""The workload with a lying Prometheus: all pods bound, one leader, no migration."""

import pytest

from kubedsm_lab.chaos import lying_prometheus
from kubedsm_lab.chaos.trace import Injection, play

LYING = Injection("lying-prometheus")


def detached(outcome):
    return [moment for moment in outcome.history if moment.point == "patch-pods.detach"]


def test_no_lie_has_a_pod_migrated():
    outcome = play(LYING)
    assert outcome.violations == ()
    assert str(outcome.end["web"]) == "1 at the edge, 0 in the cloud, 0 waiting"
    assert str(outcome.end["shop"]) == "2 at the edge, 0 in the cloud, 0 waiting"
    assert (outcome.deleted, detached(outcome)) == (0, [])
    starts = [moment for moment in outcome.history if moment.point == "create-leases"]
    assert len(starts) == 1


@pytest.mark.long
def test_the_same_would_have_one_migrated_if_it_were_believed(monkeypatch):
    believed = dict.fromkeys(lying_prometheus.LIES, lying_prometheus._send_claims)
    monkeypatch.setattr(lying_prometheus.LyingPrometheus.__init__, "__defaults__", (believed,))
    assert detached(play(LYING))
