"""Resource requests of a pod, computed as kube-scheduler and the kubelet do.

Source: KEP-753 (sidecar containers), KEP-2837 (pod-level resources), KEP-1287 and KEP-5419 (their
resize in place), and "Resource sharing within containers" in the Kubernetes documentation of init
containers.
"""

from functools import lru_cache
from typing import NamedTuple

from kubedsm.model.model import Resources
from kubedsm.model.quantities import QuantityError, parse_millis, parse_units

#: (resource, quantity) as JSON has them; a tuple, because it is a key of a cache
Amounts = tuple[tuple[str, str | int | float], ...]
#: what the kubelet reports of a container: allocated to it, and in force; it may lag behind
Reported = tuple[Amounts, ...]

#: pod-level requests replace the containers' for these, and for huge pages
_POD_LEVEL = ("cpu", "memory")


class Reports(NamedTuple):
    """Resources that the kubelet reports; they differ from the requests during a resize."""

    #: in the order of the containers, or empty if nothing is reported of any
    containers: tuple[Reported, ...] = ()
    #: in the order of the init containers; it matters for sidecars alone
    init_containers: tuple[Reported, ...] = ()
    #: overhead included
    pod: Reported = ()
    #: the resize that was asked for is impossible on this node
    infeasible: bool = False


_NO_REPORTS = Reports()


class FieldError(ValueError):
    """One field of an object is not what it must be."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


def integers(amounts: Amounts, path: str) -> dict[str, int]:
    """Millicores of cpu, whole units of everything else, by resource.

    Raises FieldError, with `path` before the resource's name.
    """
    result = {}
    for name, quantity in amounts:
        try:
            result[name] = parse_millis(quantity) if name == "cpu" else parse_units(quantity)
        except QuantityError as error:
            raise FieldError(f"{path}.{name}", str(error)) from None
    return result


@lru_cache(maxsize=1024)
def pod_requests(
    containers: tuple[Amounts, ...],
    init_containers: tuple[tuple[Amounts, bool], ...] = (),
    overhead: Amounts = (),
    pod_level: Amounts = (),
    reports: Reports | None = None,
) -> Resources:
    """Return the peak requests over the pod's life, and one of `pods`.

    Init containers come in order, each with whether it is a sidecar (restartPolicy Always). An
    init container runs beside the sidecars started before it; the containers run beside all of
    them. Hence max(containers + sidecars, each init container + earlier sidecars) + overhead.
    Only requests count: the API server has already set those that follow from limits.

    While a resize is under way the greater counts of what was asked for and what is reported, or
    only what is reported if the resize is infeasible.

    Raises FieldError for an amount that is not a quantity, or negative.
    """
    reports = reports or _NO_REPORTS
    running: dict[str, int] = {}
    for index, amounts in enumerate(containers):
        asked = integers(amounts, f"spec.containers[{index}].resources.requests")
        report = reports.containers[index] if reports.containers else ()
        read = _read(report, "containerStatuses", index)
        _add(running, _effective(asked, read, reports.infeasible))
    sidecars: dict[str, int] = {}
    starting: dict[str, int] = {}
    for index, (amounts, is_sidecar) in enumerate(init_containers):
        asked = integers(amounts, f"spec.initContainers[{index}].resources.requests")
        if is_sidecar:
            report = reports.init_containers[index] if reports.init_containers else ()
            read = _read(report, "initContainerStatuses", index)
            asked = _effective(asked, read, reports.infeasible)
            _add(running, asked)
            _add(sidecars, asked)
        else:
            _add(asked, sidecars)
            _raise_to(starting, asked)
    _raise_to(running, starting)
    extra = integers(overhead, "spec.overhead")
    running |= _of_the_pod(pod_level, reports, extra)
    _add(running, extra)
    running["pods"] = 1
    return Resources.of(running)


def _read(report: Reported, field: str, index: int) -> list[dict[str, int]]:
    return [integers(amounts, f"status.{field}[{index}]") for amounts in report]


def _effective(
    asked: dict[str, int], reported: list[dict[str, int]], infeasible: bool
) -> dict[str, int]:
    if not reported:
        return asked
    most = {} if infeasible else dict(asked)
    for amounts in reported:
        _raise_to(most, amounts)
    return most


def _of_the_pod(asked: Amounts, reports: Reports, overhead: dict[str, int]) -> dict[str, int]:
    """Return the pod-level requests that replace the containers', without the overhead."""
    at_pod = _pod_level_amounts(integers(asked, "spec.resources.requests"))
    if not at_pod:
        return {}
    without_overhead = [
        {name: max(0, amount - overhead.get(name, 0)) for name, amount in amounts.items()}
        for report in reports.pod
        for amounts in [_pod_level_amounts(integers(report, "status.resources"))]
    ]
    return _effective(at_pod, without_overhead, reports.infeasible)


def _pod_level_amounts(amounts: dict[str, int]) -> dict[str, int]:
    return {
        name: amount
        for name, amount in amounts.items()
        if name in _POD_LEVEL or name.startswith("hugepages-")
    }


def _add(amounts: dict[str, int], more: dict[str, int]) -> None:
    for name, amount in more.items():
        amounts[name] = amounts.get(name, 0) + amount


def _raise_to(amounts: dict[str, int], least: dict[str, int]) -> None:
    for name, amount in least.items():
        amounts[name] = max(amounts.get(name, 0), amount)
