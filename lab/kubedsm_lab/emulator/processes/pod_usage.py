"""What pods use, for autoscalers: CPU over the time since they asked last, and memory."""

from pathlib import Path
from weakref import WeakKeyDictionary

import attrs

from kubedsm.process.clock import Clock
from kubedsm_lab.emulator.processes.accounts import PROC, held_by, used_by
from kubedsm_lab.emulator.processes.pod_processes import PodProcess, PodProcesses


@attrs.frozen
class _Look:
    pid: int
    #: seconds, by the clock and of the process' CPU
    at: float
    cpu: float


class PodUsage:
    """To be called as `metrics_server.Usage`; of pods that are no process nothing is known."""

    def __init__(self, pods: PodProcesses, clock: Clock, proc: Path = PROC) -> None:
        self._pods = pods
        self._clock = clock
        self._proc = proc
        self._last: WeakKeyDictionary[PodProcess, _Look] = WeakKeyDictionary()

    def __call__(self, namespace: str, pod: str, resource: str) -> float | None:
        for each, process in self._pods.running():
            if each.name == (namespace, pod):
                if resource == "memory":
                    return float(held_by(process.pid, self._proc))
                return self._cores(each, process.pid) if resource == "cpu" else None
        return None

    def _cores(self, pod: PodProcess, pid: int) -> float | None:
        """None at the first look at a process, which has nothing before it."""
        used = used_by(pid, self._proc)
        if used is None:
            return None
        before = self._last.get(pod)
        look = self._last[pod] = _Look(pid, self._clock.monotonic(), used.user + used.system)
        if before is None or before.pid != pid or look.at <= before.at:
            return None
        return (look.cpu - before.cpu) / (look.at - before.at)
