"""Configuration of the scheduler: an immutable, validated value, read from and written to YAML."""

from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import attrs
import msgspec

from kubedsm.config.calendar import Calendar
from kubedsm.config.documents import (
    CONFIGURATION,
    DocumentError,
    at,
    content,
    key_shown,
    reading,
    source_of,
)
from kubedsm.config.duration import format_duration
from kubedsm.config.fields import (
    choice,
    flag,
    read_section,
    section_schema,
    setting,
    subsection,
    validate_fields,
    write_section,
)
from kubedsm.config.load_aware import LoadAware
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
    BY_LABEL,
    ENDING,
    EVERY_SERVICE,
    SERVICES,
    Mode,
    Service,
    entries_for,
    is_label_key,
    service_of,
)
from kubedsm.config.yaml_text import parse_all_yaml, parse_yaml
from kubedsm.model.model import Tiers, Workload
from kubedsm.objective.fragmentation import Measure
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.objective.qos_targets import LatencyGoal
from kubedsm.objective.site_demand import SiteGoal
from kubedsm.optimizer.moving.suggestion import SuggestLimits
from kubedsm.optimizer.policies.kubedsm import KubeDSM
from kubedsm.solvers.available import solver_of

#: of a ConfigMap
KEY = "config.yaml"
API_VERSION = "kubedsm.io/v1alpha1"
KIND = "KubeDSMConfiguration"
#: workloads with cached QoS targets
_REMEMBERED = 4096
#: bytes: parsing YAML blocks the event loop
LONGEST = 65_536
#: limits of reported mistakes: of one message, and of a list
_SHOWN_MISTAKES, _MOST_MISTAKES = 5, 100
_NO_ENTRY = Service()
#: keys that were removed since the last version, and are refused by the next one
DEPRECATED = {("suggester", "minGain"): "migration.price is the benefit that a migration exceeds"}


@attrs.frozen(slots=False, field_transformer=validate_fields)
class Configuration:
    api_version: str = setting(API_VERSION, choice(API_VERSION))
    kind: str = setting(KIND, choice(KIND))
    scheduler_name: str = setting("kubedsm", NAME)
    preemption: Literal["disabled", "enabled"] = setting("disabled", choice("disabled", "enabled"))
    tiers: Tiers = setting(Tiers(), TIERS)
    site: SiteSettings = subsection(SiteSettings)
    batch: BatchSettings = subsection(BatchSettings)
    edge: EdgeSettings = subsection(EdgeSettings)
    cloud: CloudSettings = subsection(CloudSettings)
    suggester: SuggesterSettings = subsection(SuggesterSettings)
    solver: SolverSettings = subsection(SolverSettings)
    optimiser: OptimiserSettings = subsection(OptimiserSettings)
    migration: MigrationSettings = subsection(MigrationSettings)
    objective: ObjectiveSettings = subsection(ObjectiveSettings)
    #: measure of unusable free capacity
    fragmentation: Literal["unusable", "product"] = setting(
        "unusable", choice("unusable", "product")
    )
    #: spread replicas of a workload unless spreading reduces the QoS score
    default_spread: bool = setting(True, flag())
    services: Mapping[str, Service] = setting(
        {EVERY_SERVICE: Service(qos=1.0, weight=1.0)}, SERVICES
    )
    tenants: TenantSettings = subsection(TenantSettings)
    fairness: Fairness = subsection(Fairness)
    latency: Latency = subsection(Latency)
    load_aware: LoadAware = subsection(LoadAware)

    def __attrs_post_init__(self) -> None:
        for key, service in self.services.items() if self.has_label_keys else ():
            said = [name for name, value in write_section(service).items() if value is not None]
            for name in said if is_label_key(key) else ():
                if name not in BY_LABEL:
                    with at("services"), at(key), at(name):
                        raise DocumentError(f"a label sets {' and '.join(BY_LABEL)} only")
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

    def qos_target(self, workload: Workload) -> QosTarget:
        """Return the QoS target (edge share and weight) that the configuration gives a workload; a
        configured latency target is converted to an edge share.
        """
        return self._look_up(workload)[1]

    def _look_up(self, workload: Workload) -> tuple[Service, QosTarget]:
        known = self._known.get(workload)
        if known is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            said = self.services.get(EVERY_SERVICE, _NO_ENTRY)
            if workload.kind in ENDING or self.services.keys() - {EVERY_SERVICE}:
                said = service_of(self.services, workload)
            qos = 1.0 if said.qos is None else said.qos
            if said.latency_target is not None:
                qos = self.latency.times.qos(said.latency_target)
            # Pods that end are not migrated: from an edge that others need later, none would leave.
            most = 0 if workload.kind in ENDING and not qos else None
            target = QosTarget(qos, 1.0 if said.weight is None else said.weight, most)
            known = self._known[workload] = said, target
        return known

    @cached_property
    def has_label_keys(self) -> bool:
        return any(map(is_label_key, self.services))

    def select_by_labels(self, workload: Workload, labels: Mapping[str, str]) -> dict[str, float]:
        """Return the QoS factor and weight that `services` entries for labels set for the workload;
        fields that no such entry sets are omitted.
        """
        entries = entries_for(self.services, workload, labels)
        return {
            name: getattr(entry, name)
            for name, (key, entry) in entries.items()
            if is_label_key(key)
        }

    @cached_property
    def _known(self) -> dict[Workload, tuple[Service, QosTarget]]:
        """Cache of service entries and QoS targets by workload."""
        return {}

    def _entry_of(self, workload: Workload) -> Service:
        return self._look_up(workload)[0]

    @cached_property
    def objective_function(self) -> Objective:
        given = self.objective
        gap = self.latency.cloud - self.latency.edge
        if given.kind != "latency":
            gap = Objective().tier_gap
        return Objective(given.kind, given.alpha, given.beta, given.gamma, gap, given.evenness)

    @cached_property
    def policy(self) -> KubeDSM:
        suggester = self.suggester
        return KubeDSM(
            self.qos_target,
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
            self._site_goal,
            self.select_by_labels if self.has_label_keys else None,
        )

    @property
    def _site_goal(self) -> SiteGoal | None:
        latency = self.latency
        if not self.site.label or latency.edge >= latency.cloud:
            return None
        return SiteGoal(
            self.site.label,
            self._demand
            if any(each.demand is not None for each in self.services.values())
            else None,
            self._kept_part if any(each.resilience for each in self.services.values()) else None,
            self._latency_target,
            latency.edge,
            latency.between_sites,
            latency.cloud,
            latency.pairs,
        )

    def _demand(self, workload: Workload) -> Mapping[str, float] | None:
        return self._entry_of(workload).demand

    def _kept_part(self, workload: Workload) -> float:
        return (self._entry_of(workload).resilience or {}).get("site", 0.0)

    @property
    def _latency_goal(self) -> LatencyGoal | None:
        if not self.latency.queries.requests:
            return None
        return LatencyGoal(self._latency_target, self.latency.times)

    def _latency_target(self, workload: Workload) -> float | None:
        return self._entry_of(workload).latency_target

    def rate(self, workload: Workload) -> float | None:
        """Return the workload's configured request rate in requests/s."""
        return self._entry_of(workload).rate

    @property
    def packing_mode(self) -> ApplyMode:
        """Mode of capacity packing (migrations for unschedulable pods): apply, suggest or off."""
        return self.optimiser.mode or self.suggester.mode

    @cached_property
    def has_calendar(self) -> bool:
        """Return True if any windows or freezes of migrations are configured."""
        common, services = self.migration, self.services.values()
        return bool(common.windows or common.freezes) or any(
            each.windows or each.freezes for each in services
        )

    def calendar(self, workload: Workload) -> Calendar:
        """Return the windows and freezes of the workload's migrations."""
        entry, common = self._entry_of(workload), self.migration
        windows = common.windows if entry.windows is None else entry.windows
        return Calendar(windows, (*common.freezes, *(entry.freezes or ())))

    def migration_mode(self, workload: Workload) -> Mode:
        return self._entry_of(workload).mode or self.migration.mode


def load(text: str | bytes, source: str) -> Configuration:
    """Parse and validate the configuration from YAML or JSON; an empty document means defaults.

    Raises DocumentError, which names the source and the first mistakes.
    """
    with reading(source):
        said = parse_document(text)
        try:
            return read_section(Configuration, said)
        except DocumentError:
            first, *more = _find_mistakes(said, _SHOWN_MISTAKES + 1)
    told = [*map(str, more[: _SHOWN_MISTAKES - 1])]
    told += ["and more, as `kubedsm config check` lists"] * (len(more) >= _SHOWN_MISTAKES)
    raise DocumentError("; ".join((first.reason, *told)), first.place, source)


def list_mistakes(text: str | bytes, source: str) -> list[DocumentError]:
    """Return all mistakes of a configuration document."""
    try:
        with reading(source):
            said = parse_document(text)
    except DocumentError as error:
        return [error]
    found = _find_mistakes(said, _MOST_MISTAKES)
    return [DocumentError(each.reason, each.place, source) for each in found]


def _find_mistakes(said: object, most: int) -> list[DocumentError]:
    """Return the first mistakes of a document, found by removing each invalid key and validating
    again.
    """
    found: dict[tuple[str, ...], DocumentError] = {}
    while len(found) < most:
        try:
            read_section(Configuration, said)
        except DocumentError as error:
            place = error.place
            if place in found:  # the whole section is invalid, not only the key
                place = place[:-1]
            else:
                found[place] = error
            while place and not _remove_key(said, place):
                place = place[:-1]  # an entry of a list, whose other entries keep their numbers
            if not place:
                break
        else:
            break
    return list(found.values())


def _remove_key(said: object, place: tuple[str, ...]) -> bool:
    """Remove an invalid key from the configuration document; return True if present."""
    if not place:
        return False
    *sections, last = place
    for name in sections:
        said = next((v for k, v in _list_items(said) if key_shown(k) == name), None)
    key = next((k for k, _ in _list_items(said) if key_shown(k) == last), None)
    if not isinstance(said, dict) or key is None:
        return False
    del said[key]
    return True


def _list_items(said: object) -> list[tuple[object, object]]:
    if isinstance(said, list):
        return list(enumerate(said))
    return list(said.items()) if isinstance(said, Mapping) else []


def parse_document(text: str | bytes) -> object:
    """Parse YAML or JSON to a mapping of configuration keys, without validation; empty text: none.

    Deprecated keys are left out. Raises DocumentError.
    """
    return _split_deprecated(_parse_text(text))[0]


def list_deprecated(text: str | bytes) -> list[str]:
    """Return a line for each deprecated key of the document, with the remedy.

    Raises DocumentError.
    """
    return _split_deprecated(_parse_text(text))[1]


def _split_deprecated(said: object) -> tuple[object, list[str]]:
    """Return the document without deprecated keys, and a line for each of these."""
    found = []
    for (section, key), remedy in DEPRECATED.items():
        if isinstance(said, dict) and isinstance(said.get(section), dict) and key in said[section]:
            left = {name: value for name, value in said[section].items() if name != key}
            said = {**said, section: left}
            found.append(f"{section}.{key} is deprecated and ignored: {remedy}")
    return said, found


def _parse_text(text: str | bytes) -> object:
    if len(text) > LONGEST:
        raise DocumentError(f"longer than {LONGEST} bytes; wildcards make it shorter")
    said: object = parse_yaml(text, CONFIGURATION)
    return {} if said is None else said


def load_file(path: str | Path) -> Configuration:
    """Load and validate a configuration file. Raises DocumentError that names the file."""
    return load(*text_at(path))


def text_at(path: str | Path) -> tuple[str | bytes, str]:
    """Read a configuration file; return the document text, and the source's name for messages.

    For a manifest of a ConfigMap: the text of its key. Raises DocumentError.
    """
    text, source = content(path, LONGEST), source_of(path)
    if b"ConfigMap" not in text:
        return text, source
    said: list[Any] = []
    with suppress(DocumentError):  # reported when parsed as a configuration
        said = parse_all_yaml(text)
    maps = [each for each in said if isinstance(each, dict) and each.get("kind") == "ConfigMap"]
    held = [data[KEY] for one in maps if isinstance(data := one.get("data"), dict) and KEY in data]
    if maps and not (held and isinstance(held[0], str)):
        raise DocumentError(f"a ConfigMap without a text of the key {KEY}", source=source)
    return (held[0], f"{source}, {KEY}") if held else (text, source)


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a configuration document, for editors."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": KIND,
        **section_schema(Configuration),
    }


def dump(configuration: Configuration) -> str:
    """Serialise the configuration to YAML text: the inverse of `load`."""
    return msgspec.yaml.encode(write_section(configuration)).decode()
