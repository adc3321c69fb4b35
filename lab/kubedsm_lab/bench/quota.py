"""Limit of a process to a share of one core: by a cgroup, or else by SIGSTOP and SIGCONT.

The cgroup needs write access to /sys/fs/cgroup, as root has on a machine, but mostly not in a
container. Otherwise the process and its children run on one core, and are stopped for a part of
each period. This limit is stricter on a busy machine, where the running part is shared.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import attrs

from kubedsm_lab.bench.processes import Scheduler, family

#: seconds, and microseconds, of one period
_PERIOD, _MICROSECONDS = 0.1, 100_000
#: roots of the CPU controller in cgroup v2 and v1, and name and format of the limit
_CONTROLLERS = (
    (Path("/sys/fs/cgroup"), "cpu.max", "{} {}"),
    (Path("/sys/fs/cgroup/cpu"), "cpu.cfs_quota_us", "{}"),
)
SIGNALS = "SIGSTOP and SIGCONT on one core"


@attrs.frozen
class Quota:
    """Share of one core for a scheduler process; `group` is None without a writable cgroup."""

    share: float
    group: Path | None

    @property
    def method(self) -> str:
        return SIGNALS if self.group is None else "cgroup quota"

    @property
    def prefix(self) -> tuple[str, ...]:
        """Command that starts another command under the quota."""
        if self.group is None:
            return ("taskset", "--cpu-list", str(min(os.sched_getaffinity(0))))
        return ("sh", "-c", f'echo $$ > {self.group}/cgroup.procs && exec "$@"', "sh")

    async def enforce(self, scheduler: Scheduler) -> None:
        """Stop and continue the scheduler's processes, until cancelled; nothing with a cgroup."""
        while self.group is None and self.share < 1:
            stopped = _signal(scheduler.pid, signal.SIGSTOP)
            try:
                await asyncio.sleep(_PERIOD * (1 - self.share))
            finally:
                for pid in stopped:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGCONT)
            await asyncio.sleep(_PERIOD * self.share)


def _signal(pid: int, number: signal.Signals) -> list[int]:
    """Send a signal to a process and its descendants; return the ids of those that exist."""
    reached = []
    with suppress(OSError):  # a process has just ended
        for each in family(pid) if pid else ():
            os.kill(each, number)
            reached.append(each)
    return reached


@asynccontextmanager
async def quota(share: float) -> AsyncIterator[Quota]:
    """Create a cgroup for the block, where the machine permits."""
    group = _create_group(share)
    try:
        yield Quota(share, group)
    finally:
        if group is not None:
            group.rmdir()


def _create_group(share: float) -> Path | None:
    for root, name, text in _CONTROLLERS:
        # Without this file the directory is a plain one.
        if not (root / "cgroup.procs").exists():
            continue
        group = root / f"kubedsm-bench-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / name).write_text(text.format(int(share * _MICROSECONDS), _MICROSECONDS))
        except OSError:
            group.rmdir()
            continue
        return group
    return None
