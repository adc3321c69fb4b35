"""What pods and nodes have used: /proc of the pods' processes, and what passed their proxies.

A node's counters go on when a pod ends, as a real node's do: a rate over them must not jump.
"""

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import attrs

_TICK = 1 / os.sysconf("SC_CLK_TCK")
#: fields of /proc/PID/stat after the program's name: utime and stime
_USER, _SYSTEM = 11, 12
_KIBI = 1024
PROC = Path("/proc")


@attrs.frozen
class Counters:
    """What only grows: seconds of CPU, and bytes."""

    user: float = 0.0
    system: float = 0.0
    read: int = 0
    written: int = 0
    received: int = 0
    sent: int = 0

    def __add__(self, other: "Counters") -> "Counters":
        mine, others = attrs.astuple(self), attrs.astuple(other)
        return Counters(*(a + b for a, b in zip(mine, others, strict=True)))

    def __sub__(self, other: "Counters") -> "Counters":
        mine, others = attrs.astuple(self), attrs.astuple(other)
        return Counters(*(a - b for a, b in zip(mine, others, strict=True)))


def used_by(pid: int, proc: Path = PROC) -> Counters | None:
    """What a process used since it began; None if it is gone.

    What the kernel does not tell counts as nothing, here and for memory.
    """
    try:
        # The program's name may hold spaces and parentheses.
        stat = (proc / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    io = _amounts(proc / str(pid) / "io")
    return Counters(
        user=int(stat[_USER]) * _TICK,
        system=int(stat[_SYSTEM]) * _TICK,
        read=io.get("read_bytes", 0),
        written=io.get("write_bytes", 0),
    )


def held_by(pid: int, proc: Path = PROC) -> int:
    """Bytes of memory: its own, and its part of what it shares."""
    return _amounts(proc / str(pid) / "smaps_rollup").get("Pss", 0) * _KIBI


def _amounts(path: Path) -> Mapping[str, int]:
    """Lines such as `Pss:  120 kB`."""
    found = {}
    with suppress(OSError):
        for line in path.read_text().splitlines():
            name, colon, rest = line.partition(":")
            if colon and rest.split()[:1] and rest.split()[0].isdecimal():
                found[name] = int(rest.split()[0])
    return found


@attrs.frozen
class Look:
    """At a pod's process."""

    uid: str
    node: str
    pid: int
    used: Counters


class Accounts:
    """To be shown the processes again and again: what one used after the last time is lost."""

    def __init__(self) -> None:
        self.pods: defaultdict[str, Counters] = defaultdict(Counters)
        self.nodes: defaultdict[str, Counters] = defaultdict(Counters)
        self._last: dict[tuple[str, int], Counters] = {}

    def take(self, looks: Iterable[Look]) -> None:
        """Take in a look at all that run; whoever is not among them runs no more."""
        last, self._last = self._last, {}
        for look in looks:
            process = look.uid, look.pid
            self._last[process] = look.used
            self.add(look.uid, look.node, look.used - last.get(process, Counters()))
        for uid in self.pods.keys() - {uid for uid, _ in self._last}:
            del self.pods[uid]

    def add(self, uid: str, node: str, used: Counters) -> None:
        self.pods[uid] += used
        self.nodes[node] += used
