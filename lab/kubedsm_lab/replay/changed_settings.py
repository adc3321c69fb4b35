"""Configurations with some settings changed, as variants of replays are given."""

from collections.abc import Mapping

from kubedsm.config.documents import DocumentError
from kubedsm.config.fields import read_section, write_section
from kubedsm.config.settings import Configuration
from kubedsm.config.yaml_text import parse_yaml


def with_settings(configuration: Configuration, settings: Mapping[str, str]) -> Configuration:
    """Copy the configuration with new YAML values under dotted keys such as `suggester.period`.

    Raises DocumentError.
    """
    changed = write_section(configuration)
    for key, value in settings.items():
        *sections, last = key.split(".")
        place = changed
        for name in sections:
            place = place.setdefault(name, {})
            if not isinstance(place, dict):
                raise DocumentError("no section", tuple(sections))
        place[last] = parse_yaml(value)
    return read_section(Configuration, changed)
