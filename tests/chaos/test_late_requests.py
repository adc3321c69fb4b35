"""Requests of a paused leader that arrive when another leads, which has decided meanwhile."""

import pytest

from kubedsm_lab.chaos.faults import Fault
from kubedsm_lab.chaos.sweep import reference
from kubedsm_lab.chaos.trace import Injection, play
from kubedsm_lab.emulator.front import EmulatedFront


@pytest.mark.parametrize(
    ("point", "status"),
    [("create-pods/binding", 409), ("patch-pods.detach", 409), ("create-pods/eviction", 404)],
)
def test_a_request_that_arrives_after_the_lease_has_passed_is_refused(point, status, monkeypatch):
    """The pod is bound or changed; the pod to evict is gone."""
    answers = []

    def apply(front, request):
        answers.append(front._routes.handle(front._api_request(request)).status)

    monkeypatch.setattr(EmulatedFront, "_apply", apply)
    fault = Fault.parse(f"process:{point}:0:stopped-late")
    outcome = play(Injection("leader-change", (fault,)), reference("leader-change", 0))
    assert outcome.struck
    assert answers == [status]
    assert outcome.violations == ()
