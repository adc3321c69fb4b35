"""What may become of a process at one of its calls, and of its clock."""

from collections.abc import Callable
from typing import Literal

import attrs

from kubedsm.kube.watching.reflector import LIST_TIMEOUT
from kubedsm_lab.chaos.process import Process

#: seconds for which it is stopped, or cut off: another leads before, even by a clock at half speed
AWAY = 40.0
#: seconds that one may take to end that was told to, and to be started again
ENDING = 30.0
HOUR = 3600.0
PROCESS = "process"

Act = Callable[[Process], object]


@attrs.frozen
class Interruption:
    """It begins before the call leaves, when it has left, or when its answer has been heard."""

    moment: Literal["before", "left", "after"]
    begin: Act
    #: what ends it, `AWAY` seconds later
    end: Act | None = None
    #: seconds for which the process serves nobody, at most
    lasts: float = AWAY


def _lose_leases(process: Process) -> None:
    process.hangs = lambda request: "/leases" in request.path


def _lose_nothing(process: Process) -> None:
    process.hangs = lambda _: False


def _step(seconds: float) -> Act:
    def step(process: Process) -> None:
        process.clock.wrong += seconds

    return step


def _terminate(process: Process) -> None:
    process.stopping.set()


INTERRUPTIONS = {
    "stopped-before": Interruption("before", Process.freeze, Process.thaw),
    "stopped-left": Interruption("left", Process.freeze, Process.thaw),
    "stopped-after": Interruption("after", Process.freeze, Process.thaw),
    "cut-before": Interruption("before", Process.cut_off, Process.heal, AWAY + LIST_TIMEOUT),
    "cut-left": Interruption("left", Process.cut_off, Process.heal, AWAY + LIST_TIMEOUT),
    "leases-lost": Interruption("before", _lose_leases, _lose_nothing),
    "terminated-before": Interruption("before", _terminate, lasts=ENDING),
    "terminated-after": Interruption("after", _terminate, lasts=ENDING),
    "hour-forth": Interruption("before", _step(HOUR), lasts=0.0),
    "hour-back": Interruption("before", _step(-HOUR), lasts=0.0),
}
