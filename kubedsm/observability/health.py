"""Whether the process should be started anew, and whether it does its work: checks with names.

What they say is written as Kubernetes' own components do: `[+]synced ok`.
"""

from collections.abc import Iterator, Mapping

import attrs

from kubedsm.app.assembly import Runtime
from kubedsm.config.current import CurrentConfiguration
from kubedsm.observability.reading import Leadership

#: seconds that a loop fails again and again before only a new process may help
HOPELESS_AFTER = 300.0


@attrs.frozen(slots=True)
class Check:
    name: str
    #: why it failed; empty if it did not
    failed: str = ""
    #: what is worth saying all the same
    remark: str = ""

    def __str__(self) -> str:
        if self.failed:
            return f"[-]{self.name} failed: {self.failed}"
        return f"[+]{self.name} ok" + (f": {self.remark}" if self.remark else "")


@attrs.frozen(slots=True)
class Health:
    """What came of an endpoint's checks."""

    endpoint: str
    checks: tuple[Check, ...]

    @property
    def well(self) -> bool:
        return not any(check.failed for check in self.checks)

    def text(self, *, verbose: bool) -> str:
        """`ok`, or all checks when one failed, has a remark, or they are asked for."""
        if self.well and not verbose and not any(check.remark for check in self.checks):
            return "ok"
        verdict = "passed" if self.well else "failed"
        lines = (*map(str, self.checks), f"{self.endpoint} check {verdict}")
        return "".join(f"{line}\n" for line in lines)


def alive(failing: Mapping[str, float]) -> Health:
    """The event loop turns, for it answers. `failing`: loops, and for how many seconds."""
    return Health("healthz", (Check("event-loop"), *_loops(failing)))


def _loops(failing: Mapping[str, float]) -> Iterator[Check]:
    if not failing:
        yield Check("loops")
    for loop, seconds in sorted(failing.items()):
        said = f"fails again and again for {seconds:.0f} s; see the log"
        hopeless = seconds >= HOPELESS_AFTER
        yield Check(f"loops/{loop}", said if hopeless else "", said)


def joining() -> Health:
    return Health("readyz", (Check("joined", "waits for an API server that lets us in"),))


def ready(
    missing: list[str], leadership: Leadership, configuration: CurrentConfiguration
) -> Health:
    """`missing`: the kinds of objects that have not been listed yet."""
    synced = Check("synced", f"not listed yet: {', '.join(missing)}" if missing else "")
    return Health("readyz", (synced, _elected(leadership), _configured(configuration)))


def _elected(leadership: Leadership) -> Check:
    name = "leader-election"
    if not leadership.known:
        return Check(name, "nobody is known to lead")
    return Check(name) if leadership.leading else Check(name, "", f"{leadership.holder} leads")


def _configured(state: CurrentConfiguration) -> Check:
    """A refused configuration leaves the last good one in force: we are as ready as before."""
    refused = f"generation {state.generation} stays, a newer one is refused: {state.refusal}"
    return Check("configuration", "", "" if state.valid else refused)


def readiness(runtime: Runtime, leadership: Leadership) -> Health:
    """Whether it decides, or could at once if it were elected."""
    unknown = [kind for kind, watch in runtime.watches.items() if not watch.synced]
    return ready([] if runtime.synced.is_set() else unknown, leadership, runtime.configuration)
