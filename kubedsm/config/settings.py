"""What an operator may decide, structured and validated as a whole, frozen."""

from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import attrs
import msgspec

from kubedsm.config.documents import DocumentError, at, content, reading, source_of
from kubedsm.config.duration import format_duration
from kubedsm.config.fields import (
    checked,
    choice,
    document,
    flag,
    section,
    section_schema,
    structured,
)
from kubedsm.config.load_aware import LoadAware
from kubedsm.config.recognised import CONFIGURATION
from kubedsm.config.sections import (
    NAME,
    TIERS,
    ApplyMode,
    BatchSettings,
    CloudSettings,
    EdgeSettings,
    Fairness,
    Latency,
    MigrationSettings,
    ObjectiveSettings,
    OptimiserSettings,
    SiteSettings,
    SolverSettings,
    SuggesterSettings,
    TenantSettings,
)
from kubedsm.config.services import (
    EVERY_SERVICE,
    SERVICES,
    Mode,
    Service,
    service_of,
)
from kubedsm.config.yaml_text import parsed, parsed_all
from kubedsm.model.model import Tiers, Workload
from kubedsm.objective.fragmentation import Measure
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.objective.qos_targets import LatencyGoal
from kubedsm.optimizer.moving.suggestion import SuggestLimits
from kubedsm.optimizer.policies.kubedsm import KubeDSM
from kubedsm.solvers.available import solver_of

#: of a ConfigMap
KEY = "config.yaml"
API_VERSION = "kubedsm.io/v1alpha1"
KIND = "KubeDSMConfiguration"
#: workloads, of each of which it is kept what is said of it
_REMEMBERED = 4096
#: bytes; parsing YAML takes its time, and everything else waits for it
LONGEST = 65_536


@attrs.frozen(slots=False, field_transformer=checked)
class Configuration:
    api_version: str = attrs.field(default=API_VERSION, metadata=choice(API_VERSION))
    kind: str = attrs.field(default=KIND, metadata=choice(KIND))
    scheduler_name: str = attrs.field(default="kubedsm", metadata=NAME)
    preemption: Literal["disabled", "enabled"] = attrs.field(
        default="disabled", metadata=choice("disabled", "enabled")
    )
    tiers: Tiers = attrs.field(default=Tiers(), metadata=TIERS)
    site: SiteSettings = attrs.field(default=SiteSettings(), metadata=section(SiteSettings))
    batch: BatchSettings = attrs.field(default=BatchSettings(), metadata=section(BatchSettings))
    edge: EdgeSettings = attrs.field(default=EdgeSettings(), metadata=section(EdgeSettings))
    cloud: CloudSettings = attrs.field(default=CloudSettings(), metadata=section(CloudSettings))
    suggester: SuggesterSettings = attrs.field(
        default=SuggesterSettings(), metadata=section(SuggesterSettings)
    )
    solver: SolverSettings = attrs.field(default=SolverSettings(), metadata=section(SolverSettings))
    optimiser: OptimiserSettings = attrs.field(
        default=OptimiserSettings(), metadata=section(OptimiserSettings)
    )
    migration: MigrationSettings = attrs.field(
        default=MigrationSettings(), metadata=section(MigrationSettings)
    )
    objective: ObjectiveSettings = attrs.field(
        default=ObjectiveSettings(), metadata=section(ObjectiveSettings)
    )
    #: how the room that no pod can use is measured
    fragmentation: Literal["unusable", "product"] = attrs.field(
        default="unusable", metadata=choice("unusable", "product")
    )
    #: the replicas of a workload go as far apart as costs no QoS
    default_spread: bool = attrs.field(default=True, metadata=flag())
    services: Mapping[str, Service] = attrs.field(
        default={EVERY_SERVICE: Service(qos=1.0, weight=1.0)}, metadata=SERVICES
    )
    tenants: TenantSettings = attrs.field(
        default=TenantSettings(), metadata=section(TenantSettings)
    )
    fairness: Fairness = attrs.field(default=Fairness(), metadata=section(Fairness))
    latency: Latency = attrs.field(default=Latency(), metadata=section(Latency))
    load_aware: LoadAware = attrs.field(default=LoadAware(), metadata=section(LoadAware))

    def __attrs_post_init__(self) -> None:
        if self.latency.edge < self.latency.cloud:
            return
        edge, cloud = format_duration(self.latency.edge), format_duration(self.latency.cloud)
        if self.objective.kind == "latency":
            with at("objective"), at("kind"):
                raise DocumentError(f"needs latency.edge, {edge}, below latency.cloud, {cloud}")
        for key, service in self.services.items():
            if service.latency_target is not None:
                with at("services"), at(key), at("latencyTarget"):
                    raise DocumentError(f"needs latency.edge, {edge}, below latency.cloud, {cloud}")

    def promise(self, workload: Workload) -> QosTarget:
        """The workload's QoS factor and weight; a latency target is turned into the factor."""
        return self._asked(workload)[1]

    def _asked(self, workload: Workload) -> tuple[Service, QosTarget]:
        known = self._known.get(workload)
        if known is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            said = service_of(self.services, workload)
            known = self._known[workload] = said, self._promised(said)
        return known

    @cached_property
    def _known(self) -> dict[Workload, tuple[Service, QosTarget]]:
        """Of those that were asked for: it is asked again and again."""
        return {}

    def _promised(self, said: Service) -> QosTarget:
        qos = 1.0 if said.qos is None else said.qos
        if said.latency_target is not None:
            qos = self.latency.times.qos(said.latency_target)
        return QosTarget(qos, 1.0 if said.weight is None else said.weight)

    def _said_of(self, workload: Workload) -> Service:
        return self._asked(workload)[0]

    @cached_property
    def objective_function(self) -> Objective:
        given = self.objective
        gap = self.latency.cloud - self.latency.edge
        if given.kind != "latency":
            return Objective(given.kind, given.alpha, given.beta, given.gamma)
        return Objective(given.kind, given.alpha, given.beta, given.gamma, gap)

    @cached_property
    def policy(self) -> KubeDSM:
        suggester = self.suggester
        return KubeDSM(
            self.promise,
            self.objective_function,
            SuggestLimits(
                suggester.max_moves,
                suggester.max_cloud_to_edge,
                suggester.max_edge_reorder,
                self.migration.price,
                suggester.defragment,
                self.edge.headroom,
                spread=self.default_spread,
            ),
            suggester.algorithm,
            Measure(self.fragmentation),
            self.fairness.namespaces if self.fairness.per_namespace else None,
            self.tenants.max_qos,
            self.batch.patience,
            self.rate if self.objective.weight == "traffic" else None,
            self.tenants.max_rate,
            self.default_spread,
            solver_of(self.solver.kind, self.solver.budget),
            self._latency_goal,
            self.load_aware.goal,
            self.cloud.percentage_of_nodes,
        )

    @property
    def _latency_goal(self) -> LatencyGoal | None:
        if not self.latency.queries.requests:
            return None
        return LatencyGoal(self._latency_target, self.latency.times)

    def _latency_target(self, workload: Workload) -> float | None:
        return self._said_of(workload).latency_target

    def rate(self, workload: Workload) -> float | None:
        """The requests/s that the operator says it answers."""
        return self._said_of(workload).rate

    @property
    def packing_mode(self) -> ApplyMode:
        """Whether pods are moved for others that no node takes."""
        return self.optimiser.mode or self.suggester.mode

    def migration_mode(self, workload: Workload) -> Mode:
        return self._said_of(workload).mode or self.migration.mode


def load(text: str | bytes, source: str) -> Configuration:
    """The configuration that YAML or JSON text describes; an empty document means defaults.

    Raises DocumentError, which names the source.
    """
    with reading(source):
        return structured(Configuration, said_by(text))


def said_by(text: str | bytes) -> object:
    """What is to be structured; a document that says nothing is a mapping without keys.

    Raises DocumentError.
    """
    if len(text) > LONGEST:
        raise DocumentError(f"longer than {LONGEST} bytes; wildcards make it shorter")
    said: object = parsed(text, CONFIGURATION)
    return {} if said is None else said


def load_file(path: str | Path) -> Configuration:
    """The configuration in the file. Raises DocumentError, which names the file."""
    return load(*text_at(path))


def text_at(path: str | Path) -> tuple[str | bytes, str]:
    """The text in the file, and what to call its source.

    Of a ConfigMap it is what its key holds. Raises DocumentError, which names the file.
    """
    text, source = content(path, LONGEST), source_of(path)
    if b"ConfigMap" not in text:
        return text, source
    said: list[Any] = []
    with suppress(DocumentError):  # told when it is read as what it should be
        said = parsed_all(text)
    maps = [each for each in said if isinstance(each, dict) and each.get("kind") == "ConfigMap"]
    held = [data[KEY] for one in maps if isinstance(data := one.get("data"), dict) and KEY in data]
    if maps and not (held and isinstance(held[0], str)):
        raise DocumentError(f"a ConfigMap without a text of the key {KEY}", source=source)
    return (held[0], f"{source}, {KEY}") if held else (text, source)


def with_settings(configuration: Configuration, settings: Mapping[str, str]) -> Configuration:
    """The same with some values changed, given as YAML under dotted keys: `suggester.period`.

    Raises DocumentError.
    """
    changed = document(configuration)
    for key, value in settings.items():
        *sections, last = key.split(".")
        place = changed
        for name in sections:
            place = place.setdefault(name, {})
            if not isinstance(place, dict):
                raise DocumentError("no section", tuple(sections))
        place[last] = parsed(value)
    return structured(Configuration, changed)


def schema() -> dict[str, Any]:
    """What `load` takes, as a JSON Schema, for editors."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": KIND,
        **section_schema(Configuration),
    }


def dump(configuration: Configuration) -> str:
    """YAML that `load` reads as this very configuration."""
    return msgspec.yaml.encode(document(configuration)).decode()
