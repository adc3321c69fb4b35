"""The shapes of what is read live, before a pod is moved or evicted; see `schema`."""

from typing import Generic

from kubedsm.kube.wire import schema
from kubedsm.kube.wire.pod_rules import selector_of
from kubedsm.kube.wire.rules_schema import LabelSelector, Wire
from kubedsm.kube.wire.schema import T
from kubedsm.model.selectors import Selector


class PodSpec(schema.PodSpec, frozen=True):
    termination_grace_period_seconds: float | None = None


class Pod(schema.Pod, frozen=True):
    spec: PodSpec


class Condition(schema.Condition, frozen=True):
    message: str | None = None


class Labelled(Wire, frozen=True):
    labels: dict[str, str] | None = None


class Template(Wire, frozen=True):
    metadata: Labelled = Labelled()


class WorkloadMetadata(schema.Metadata, frozen=True):
    generation: int = 0


class WorkloadSpec(Wire, frozen=True):
    replicas: int | None = None
    min_ready_seconds: int | None = None
    selector: LabelSelector | None = None
    template: Template = Template()


class WorkloadStatus(Wire, frozen=True):
    replicas: int | None = None
    updated_replicas: int | None = None
    observed_generation: int | None = None
    current_revision: str | None = None
    update_revision: str | None = None
    conditions: tuple[Condition, ...] | None = None


class Workload(Wire, frozen=True):
    metadata: WorkloadMetadata
    spec: WorkloadSpec
    status: WorkloadStatus = WorkloadStatus()

    @property
    def wanted(self) -> int:
        return 1 if self.spec.replicas is None else self.spec.replicas

    @property
    def selector(self) -> Selector:
        return selector_of(self.spec.selector or LabelSelector())

    @property
    def template_labels(self) -> frozenset[str]:
        return frozenset(self.spec.template.metadata.labels or ())

    @property
    def shrinking(self) -> bool:
        """Whether it has more pods than it wants, so that some will be deleted."""
        return (self.status.replicas or 0) > self.wanted


class ServiceSpec(Wire, frozen=True):
    selector: dict[str, str] | None = None


class Service(Wire, frozen=True):
    metadata: schema.Metadata
    spec: ServiceSpec = ServiceSpec()


class BudgetSpec(Wire, frozen=True):
    selector: LabelSelector | None = None


class BudgetStatus(Wire, frozen=True):
    disruptions_allowed: int = 0


class Budget(Wire, frozen=True):
    metadata: schema.Metadata
    spec: BudgetSpec
    status: BudgetStatus = BudgetStatus()


class Items(Wire, Generic[T], frozen=True):
    items: tuple[T, ...] | None = None
