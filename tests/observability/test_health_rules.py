"""Health rules: each by what violates it, and the alerts that go with them."""

import re
from pathlib import Path

import pytest
import yaml

from kubedsm.observability.health_rules import (
    FAILING,
    FAILURES,
    LATE,
    RULES,
    SHORTFALL,
    EdgeCapacity,
    EdgeShare,
    HealthFacts,
    assess_health,
)

MANIFEST = Path(__file__).parents[2] / "manifests/components/monitoring/prometheusrule.yaml"
ALERTS = {
    rule["alert"]: rule
    for group in yaml.safe_load(MANIFEST.read_text())["spec"]["groups"]
    for rule in group["rules"]
}
#: compare rates over ten minutes, which the process does not keep
ALERTS_ALONE = {"KubeDSMPodsBoundLate", "KubeDSMApiErrors"}
GIBI = 1 << 30
FREE = EdgeCapacity(2, 64_000, 12_500, 128 * GIBI, 3 * GIBI)


def share(name="shop/cart", edge=0, total=33, waiting=0, qos=1.0):
    missing = max(0, round(qos * total) - edge)
    return EdgeShare(name, edge, total, waiting, qos, missing)


MET, HALF = share(edge=33), share("shop/pay", edge=16)
#: facts, state, and the sentences
CASES = {
    "nothing": (HealthFacts(), "healthy", []),
    "every target met": (HealthFacts(shares=[MET], edge=FREE), "healthy", []),
    "no leader": (
        HealthFacts(has_leader=False),
        "down",
        ["No scheduler is known to lead: no pod is scheduled, and none is migrated."],
    ),
    "the worst counts": (
        HealthFacts(has_leader=False, refusal="batch.idle: 5."),
        "down",
        [
            "No scheduler is known to lead: no pod is scheduled, and none is migrated.",
            "The latest configuration is refused: batch.idle: 5.",
        ],
    ),
    "pause": (
        HealthFacts(pause_unknown="403"),
        "degraded",
        ["The pause switch cannot be read, so no migration begins: 403."],
    ),
    "a silent API server": (
        HealthFacts(watches={"pods": "no answer for 20 s"}),
        "degraded",
        ["The mirror of pods may be outdated: no answer for 20 s."],
    ),
    "no tiers": (
        HealthFacts(tiers=("no node is edge", "no node is edge")),
        "degraded",
        ["No node is edge."],
    ),
    "a site": (
        HealthFacts(partitioned={"north": ["e2", "e1"]}),
        "degraded",
        ["Site north is partitioned (e1, e2): its pods are left alone."],
    ),
    "nodes are a notice": (
        HealthFacts(lost_nodes={"unreachable": ["e3"], "not ready": ["e1", "e2"]}),
        "healthy",
        ["Node e3 is unreachable.", "2 nodes are not ready: e1, e2."],
    ),
    "pods": (
        HealthFacts(waiting=dict.fromkeys(("shop/cart-a", "shop/cart-b"), "Too many pods.")),
        "degraded",
        ["shop/cart-a and 1 more pod cannot be scheduled: Too many pods."],
    ),
    "services, the worst first": (
        HealthFacts(shares=[MET, HALF, share()], edge=FREE),
        "degraded",
        [
            (
                "2 of 3 services are below their edge target; worst shop/cart: 0 of 33 pods,"
                " target 100%; 12.5 of 64 cores and 3 of 128 Gi free at the edge."
            )
        ],
    ),
    "a small shortfall": (HealthFacts(shares=[share(edge=25)]), "healthy", []),
    "pods that are pending do not count twice": (
        HealthFacts(shares=[share(edge=10, total=20, waiting=10)]),
        "healthy",
        [],
    ),
    "three failures of four": (HealthFacts(failed_moves=3, ended_moves=4), "healthy", []),
    "four failures of twenty": (HealthFacts(failed_moves=4, ended_moves=20), "healthy", []),
    "four failures of eight": (
        HealthFacts(failed_moves=4, ended_moves=8),
        "degraded",
        ["4 of 8 migrations of the last half hour failed."],
    ),
    "one failure is a notice": (HealthFacts(last_failure="It failed."), "healthy", ["It failed."]),
    "a slow loop": (
        HealthFacts(loop_lag=1.0),
        "degraded",
        ["The scheduler is slow: its event loop was up to 1000 ms late."],
    ),
    "lost Events are a notice": (
        HealthFacts(events_lost=3),
        "healthy",
        ["3 Events could not be written since the start; see the log."],
    ),
    "internal errors": (
        HealthFacts(caught={"plans": 2}),
        "degraded",
        ["Internal errors of the scheduler were caught, 2 in plans; see the log."],
    ),
}


@pytest.mark.parametrize(("facts", "state", "said"), CASES.values(), ids=CASES)
def test_each_rule_has_its_state_and_its_words(facts, state, said):
    health = assess_health(facts)
    assert (health.state, [problem.text for problem in health.problems]) == (state, said)
    assert sorted((*health.troubles, *health.notices)) == sorted(said)
    assert bool(health.troubles) == (state != "healthy")


def test_each_rule_is_violated_by_a_case():
    found = {p.rule for facts, _, _ in CASES.values() for p in assess_health(facts).problems}
    assert found == {rule.name for rule in RULES}


def test_each_alert_has_a_rule_with_its_severity_and_threshold():
    of_rules = {rule.alert: rule for rule in RULES if rule.alert}
    assert of_rules.keys() == ALERTS.keys() - ALERTS_ALONE
    for name, rule in of_rules.items():
        is_critical = ALERTS[name]["labels"]["severity"] == "critical"
        assert (rule.state == "down") == is_critical, name
        assert rule.state != "healthy"
    thresholds = {
        "KubeDSMBelowPromise": [SHORTFALL],
        "KubeDSMLoopLags": [LATE],
        "KubeDSMMovesFailing": [FAILING, FAILURES],
    }
    for name, limits in thresholds.items():
        compared = re.findall(r"> ([\d.]+)", ALERTS[name]["expr"])
        assert [float(each) for each in compared] == limits, name
