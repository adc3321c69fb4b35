"""Resource requests of a pod, computed as kube-scheduler and the kubelet do.

Source: KEP-753 (sidecar containers), KEP-2837 (pod-level resources), KEP-1287 and KEP-5419 (their
resize in place), and "Resource sharing within containers" in the Kubernetes documentation of init
containers.
"""

from typing import NamedTuple

from kubedsm.kube.wire.errors import FieldError
from kubedsm.model.model import Resources
from kubedsm.model.quantities import QuantityError, parse_millis, parse_units

#: (resource, quantity) as in JSON; hashable, as a cache key
Amounts = tuple[tuple[str, str | int | float], ...]
#: kubelet's report for a container: allocated and effective resources, possibly outdated
Reported = tuple[Amounts, ...]

#: resources with pod-level requests that replace the containers', as for huge pages
_POD_LEVEL = ("cpu", "memory")


class Reports(NamedTuple):
    """Resources of a pod's containers as reported by the kubelet, different from requests during a
    resize.
    """

    #: in the order of the containers, or empty if nothing is reported of any
    containers: tuple[Reported, ...] = ()
    #: in the order of the init containers; only relevant for sidecars
    init_containers: tuple[Reported, ...] = ()
    #: overhead included
    pod: Reported = ()
    #: the requested resize is impossible on this node
    infeasible: bool = False


_NO_REPORTS = Reports()


def parse_amounts(amounts: Amounts, path: str) -> dict[str, int]:
    """Parse resource quantities to integers: millicores of cpu, whole units of other resources.

    Raises FieldError, with `path` before the resource's name.
    """
    result = {}
    for name, quantity in amounts:
        try:
            result[name] = parse_millis(quantity) if name == "cpu" else parse_units(quantity)
        except QuantityError as error:
            raise FieldError(f"{path}.{name}", str(error)) from None
    return result


def pod_requests(
    containers: tuple[Amounts, ...],
    init_containers: tuple[tuple[Amounts, bool], ...] = (),
    overhead: Amounts = (),
    pod_level: Amounts = (),
    reports: Reports | None = None,
) -> Resources:
    """Return the pod's peak resource requests over its life, plus one of resource `pods`.

    Init containers are in order, each with a sidecar flag (restartPolicy Always). An init container
    runs concurrently with earlier sidecars; the containers run concurrently with all sidecars.
    Hence max(containers + sidecars, each init container + earlier sidecars) + overhead. Only
    requests count: the API server has already derived requests from limits.

    During a resize the maximum of requested and reported resources counts; for an infeasible resize
    only reported resources.

    Raises FieldError for an invalid or negative quantity.
    """
    reports = reports or _NO_REPORTS
    running: dict[str, int] = {}
    for index, amounts in enumerate(containers):
        asked = parse_amounts(amounts, f"spec.containers[{index}].resources.requests")
        report = reports.containers[index] if reports.containers else ()
        read = _read_report(report, "containerStatuses", index)
        _add_amounts(running, _effective_amounts(asked, read, reports.infeasible))
    sidecars: dict[str, int] = {}
    starting: dict[str, int] = {}
    for index, (amounts, is_sidecar) in enumerate(init_containers):
        asked = parse_amounts(amounts, f"spec.initContainers[{index}].resources.requests")
        if is_sidecar:
            report = reports.init_containers[index] if reports.init_containers else ()
            read = _read_report(report, "initContainerStatuses", index)
            asked = _effective_amounts(asked, read, reports.infeasible)
            _add_amounts(running, asked)
            _add_amounts(sidecars, asked)
        else:
            _add_amounts(asked, sidecars)
            _raise_to(starting, asked)
    _raise_to(running, starting)
    extra = parse_amounts(overhead, "spec.overhead")
    running |= _of_the_pod(pod_level, reports, extra)
    _add_amounts(running, extra)
    running["pods"] = 1
    return Resources.of(running)


def _read_report(report: Reported, field: str, index: int) -> list[dict[str, int]]:
    return [parse_amounts(amounts, f"status.{field}[{index}]") for amounts in report]


def _effective_amounts(
    asked: dict[str, int], reported: list[dict[str, int]], infeasible: bool
) -> dict[str, int]:
    if not reported:
        return asked
    most = {} if infeasible else dict(asked)
    for amounts in reported:
        _raise_to(most, amounts)
    return most


def _of_the_pod(asked: Amounts, reports: Reports, overhead: dict[str, int]) -> dict[str, int]:
    """Return the pod-level requests, which replace the containers', without overhead."""
    at_pod = _pod_level_amounts(parse_amounts(asked, "spec.resources.requests"))
    if not at_pod:
        return {}
    without_overhead = [
        {name: max(0, amount - overhead.get(name, 0)) for name, amount in amounts.items()}
        for report in reports.pod
        for amounts in [_pod_level_amounts(parse_amounts(report, "status.resources"))]
    ]
    return _effective_amounts(at_pod, without_overhead, reports.infeasible)


def _pod_level_amounts(amounts: dict[str, int]) -> dict[str, int]:
    return {
        name: amount
        for name, amount in amounts.items()
        if name in _POD_LEVEL or name.startswith("hugepages-")
    }


def _add_amounts(amounts: dict[str, int], more: dict[str, int]) -> None:
    for name, amount in more.items():
        amounts[name] = amounts.get(name, 0) + amount


def _raise_to(amounts: dict[str, int], least: dict[str, int]) -> None:
    for name, amount in least.items():
        amounts[name] = max(amounts.get(name, 0), amount)
