"""Liveness and readiness checks, printed in Kubernetes' format: `[+]synced ok`."""

from collections.abc import Iterator, Mapping

import attrs

from kubedsm.app.assembly import Runtime
from kubedsm.config.current import CurrentConfiguration
from kubedsm.observability.reading import Leadership

#: seconds of repeated loop failures before a recommended restart
HOPELESS_AFTER = 300.0


@attrs.frozen(slots=True)
class Check:
    name: str
    #: reason of the failure; empty for success
    failed: str = ""
    #: remark on a success
    remark: str = ""

    def __str__(self) -> str:
        if self.failed:
            return f"[-]{self.name} failed: {self.failed}"
        return f"[+]{self.name} ok" + (f": {self.remark}" if self.remark else "")


@attrs.frozen(slots=True)
class Health:
    """Results of the checks of a health endpoint, such as /readyz."""

    endpoint: str
    checks: tuple[Check, ...]

    @property
    def well(self) -> bool:
        return not any(check.failed for check in self.checks)

    def text(self, *, verbose: bool) -> str:
        """Return `ok`, or a line per check in case of failures, remarks, or verbose output."""
        if self.well and not verbose and not any(check.remark for check in self.checks):
            return "ok"
        verdict = "passed" if self.well else "failed"
        lines = (*map(str, self.checks), f"{self.endpoint} check {verdict}")
        return "".join(f"{line}\n" for line in lines)


def alive(failing: Mapping[str, float]) -> Health:
    """Check liveness of the scheduler; `failing`: seconds of failure by background loop."""
    return Health("healthz", (Check("event-loop"), *_check_loops(failing)))


def _check_loops(failing: Mapping[str, float]) -> Iterator[Check]:
    if not failing:
        yield Check("loops")
    for loop, seconds in sorted(failing.items()):
        text = f"has failed repeatedly for {seconds:.0f} s; see the log"
        hopeless = seconds >= HOPELESS_AFTER
        yield Check(f"loops/{loop}", text if hopeless else "", text)


def joining() -> Health:
    return Health("readyz", (Check("joined", "waits for an API server that admits this process"),))


def ready(
    missing: list[str], leadership: Leadership, configuration: CurrentConfiguration
) -> Health:
    """Check readiness of the scheduler; `missing`: kinds of objects not listed yet."""
    synced = Check("synced", f"not listed yet: {', '.join(missing)}" if missing else "")
    return Health(
        "readyz", (synced, _check_leadership(leadership), _check_configuration(configuration))
    )


def _check_leadership(leadership: Leadership) -> Check:
    name = "leader-election"
    if not leadership.known:
        return Check(name, "no leader is known")
    return Check(name) if leadership.leading else Check(name, "", f"{leadership.holder} leads")


def _check_configuration(state: CurrentConfiguration) -> Check:
    """Check the configuration: a refused document is a remark, without effect on readiness."""
    refused = f"generation {state.generation} stays, a newer one is refused: {state.refusal}"
    return Check("configuration", "", "" if state.valid else refused)


def readiness(runtime: Runtime, leadership: Leadership) -> Health:
    """Check that the scheduler is synced, and leads or could lead immediately if elected."""
    unknown = [kind for kind, watch in runtime.followed.watches.items() if not watch.synced]
    return ready([] if runtime.synced.is_set() else unknown, leadership, runtime.configuration)
