"""Origin of each value of a configuration."""

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from kubedsm.config.fields import to_camel_case, write_section
from kubedsm.config.services import EVERY_SERVICE, Service, entries_for
from kubedsm.config.settings import Configuration
from kubedsm.config.yaml_text import list_key_lines
from kubedsm.model.model import Workload

DEFAULT = "default"
Key = tuple[str, ...]


@attrs.frozen
class Origins:
    """Origin of each configuration value: the source with its line, or the default."""

    configuration: Configuration
    source: str
    #: line number of each explicit key
    lines: Mapping[Key, int]

    @classmethod
    def of(cls, configuration: Configuration, text: str | bytes, source: str) -> "Origins":
        """Locate the lines of the source document that set the configuration's values."""
        return cls(configuration, source, list_key_lines(text))

    @property
    def effective(self) -> dict[str, Any]:
        """Return the effective configuration as a document mapping, including defaults."""
        given = self.configuration
        optimiser = attrs.evolve(given.optimiser, mode=given.packing_mode)
        latency = attrs.evolve(given.latency, neighbour=given.latency.between_sites)
        whole = write_section(attrs.evolve(given, optimiser=optimiser, latency=latency))
        every = given.services.get(EVERY_SERVICE, Service())
        qos = 1.0 if every.latency_target is None and every.qos is None else every.qos
        weight = 1.0 if every.weight is None else every.weight
        every = attrs.evolve(every, qos=qos, weight=weight)
        whole["services"] = {EVERY_SERVICE: write_section(every)} | {
            key: entry for key, entry in whole["services"].items() if key != EVERY_SERVICE
        }
        return whole

    def values(self) -> Iterator[tuple[Key, object, str]]:
        """Yield each configuration key with its effective value and origin."""
        for key, value in _flatten_sections(self.effective):
            yield key, value, self.of_key(key)

    def of_key(self, key: Key) -> str:
        line = self.lines.get(key)
        return DEFAULT if line is None else f"{self.source}:{line}"

    def of_service(self, workload: Workload, labels: Mapping[str, str], *fields: str) -> str:
        """Return the origin (file and line) of the `services` entry that sets one of these fields
        for the workload.
        """
        deciding = entries_for(self.configuration.services, workload, labels)
        for name in fields:
            if name in deciding:
                key, _ = deciding[name]
                where = self.of_key(("services", key, to_camel_case(name)))
                return where if where == DEFAULT else f"services.{key}, {where}"
        return DEFAULT


def _flatten_sections(content: Mapping[str, Any], prefix: Key = ()) -> Iterator[tuple[Key, object]]:
    for key, value in content.items():
        if isinstance(value, Mapping) and value:
            yield from _flatten_sections(value, (*prefix, key))
        else:
            yield (*prefix, key), value
