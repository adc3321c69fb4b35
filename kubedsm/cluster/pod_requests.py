"""What a pod holds of its node, counted as kube-scheduler and the kubelet count it.

Source: KEP-753 (sidecar containers), KEP-2837 (pod-level resources), and "Resource sharing within
containers" in the Kubernetes documentation of init containers.
"""

from functools import lru_cache

from kubedsm.core.model import Resources
from kubedsm.core.quantity import QuantityError, millis, units

#: (resource, quantity) as JSON has them; a tuple, because it is a key of a cache
Amounts = tuple[tuple[str, str | int | float], ...]

#: pod-level requests replace the containers' for these, and for huge pages
_POD_LEVEL = ("cpu", "memory")


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
            result[name] = millis(quantity) if name == "cpu" else units(quantity)
        except QuantityError as error:
            raise FieldError(f"{path}.{name}", str(error)) from None
    return result


@lru_cache(maxsize=8192)
def pod_requests(
    containers: tuple[Amounts, ...],
    init_containers: tuple[tuple[Amounts, bool], ...] = (),
    overhead: Amounts = (),
    pod_level: Amounts = (),
) -> Resources:
    """The most the pod asks for at any moment of its life, and one of `pods`.

    Init containers come in order, each with whether it is a sidecar (restartPolicy Always). An
    init container runs beside the sidecars started before it; the containers run beside all of
    them. Hence max(containers + sidecars, each init container + earlier sidecars) + overhead.
    Only requests count: the API server has already set those that follow from limits.

    Raises FieldError for an amount that is not a quantity, or negative.
    """
    running: dict[str, int] = {}
    for index, amounts in enumerate(containers):
        _add(running, integers(amounts, f"spec.containers[{index}].resources.requests"))
    sidecars: dict[str, int] = {}
    starting: dict[str, int] = {}
    for index, (amounts, is_sidecar) in enumerate(init_containers):
        asked = integers(amounts, f"spec.initContainers[{index}].resources.requests")
        if is_sidecar:
            _add(running, asked)
            _add(sidecars, asked)
        else:
            _add(asked, sidecars)
            _raise_to(starting, asked)
    _raise_to(running, starting)
    running |= {
        name: amount
        for name, amount in integers(pod_level, "spec.resources.requests").items()
        if name in _POD_LEVEL or name.startswith("hugepages-")
    }
    _add(running, integers(overhead, "spec.overhead"))
    running["pods"] = 1
    return Resources.of(running)


def _add(amounts: dict[str, int], more: dict[str, int]) -> None:
    for name, amount in more.items():
        amounts[name] = amounts.get(name, 0) + amount


def _raise_to(amounts: dict[str, int], least: dict[str, int]) -> None:
    for name, amount in least.items():
        amounts[name] = max(amounts.get(name, 0), amount)
