"""Annotations by which a tenant asks for something that is not understood: told once by cause."""

from collections.abc import Callable

from kubedsm.model.events import Change
from kubedsm.model.model import Pod
from kubedsm.process.clock import Clock
from kubedsm.process.log_throttle import SaidByCause


class IgnoredAnnotations:
    """`tell` gets one of a workload's pods that carry the annotation, and what is wrong."""

    def __init__(self, scheduler_name: str, clock: Clock, tell: Callable[[Pod, str], None]) -> None:
        self._scheduler_name = scheduler_name
        # Its own: no tenant takes the lines of others.
        self._said = SaidByCause(clock)
        self._tell = tell

    def observe(self, change: Change) -> None:
        before, pod = change.pod_before, change.pod_after
        if pod is None or pod.wishes is None or pod.scheduler_name != self._scheduler_name:
            return
        if before is not None and before.wishes == pod.wishes:
            return
        for why in pod.wishes.ignored:
            if self._said.more("annotation ignored", f"{pod.workload} {why}") is not None:
                self._tell(pod, why)
