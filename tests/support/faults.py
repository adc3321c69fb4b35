"""Faults of requests, and their outcomes."""

from kubedsm.execution.placement_manager import PlacementManager
from kubedsm.kube.client.port import OutcomeUnknown
from kubedsm_lab.chaos.faults import OUTCOMES as SWEPT
from kubedsm_lab.chaos.faults import answer
from kubedsm_lab.emulator.front import Faults, RequestFault
from plans.events import OutcomeLost

_REFUSALS = ("400", "401", "403", "404", "409", "410", "422", "500-applied", "503", "html")
#: as the sweep has them; those that nobody has to wait for in their place
OUTCOMES = {name: SWEPT[name] for name in (*_REFUSALS, "reset-applied")} | {
    "unreachable": SWEPT["refused"],
    "lost": RequestFault(OutcomeUnknown("timed out")),
    "lost-applied": RequestFault(OutcomeUnknown("timed out"), applied=True),
    "429": RequestFault(answer(429, "TooManyRequests")),
    "empty": RequestFault(answer(200, "", b"")),
}


class Failing(Faults):
    """Fault of each request that matches, while it is on; counts these requests."""

    def __init__(self, matches, fault):
        self.matches, self.fault = matches, fault
        self.on, self.count = True, 0

    def on_request(self, request):
        if not self.on or not self.matches(request):
            return None
        self.count += 1
        return self.fault


def lost_answers_forget_reservations(monkeypatch):
    """Release what is reserved for the pod before its plan is told that the answer is lost."""
    report = PlacementManager.report

    def forgetful(manager, plan_id, event, due=0.0):
        if isinstance(event, OutcomeLost):
            manager.mirror.release(manager._plans[plan_id].plan.steps[event.step].pod)
        report(manager, plan_id, event, due)

    monkeypatch.setattr(PlacementManager, "report", forgetful)
