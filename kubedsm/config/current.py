"""Configuration in effect.

Rules. Each use of a setting reads `current` again, without a copy. A document is applied whole or
not at all: after an invalid one the last valid one stays in effect. `replace` is synchronous, so
that all readers see the same configuration before and after.
"""

from collections.abc import Callable

import attrs

from kubedsm.config.documents import DocumentError, shown
from kubedsm.config.fields import write_section
from kubedsm.config.settings import Configuration, load

#: changed keys that are told
_TOLD = 10


def as_given(configuration: Configuration) -> Configuration:
    """Return the configuration unchanged."""
    return configuration


@attrs.define
class CurrentConfiguration:
    current: Configuration = attrs.field(factory=Configuration)
    #: when it was taken, in seconds since the epoch
    since: float = 0.0
    #: how many were taken, the first one included
    generation: int = 1
    #: why what was given last is not what holds, in one line; empty if it is
    refusal: str = ""
    #: what holds of a configuration that is given
    adjusted: Callable[[Configuration], Configuration] = attrs.field(default=as_given, kw_only=True)
    #: hear of each change, when it holds already
    _observers: list[Callable[[Configuration], None]] = attrs.field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        self.current = self.adjusted(self.current)

    @property
    def valid(self) -> bool:
        """Return True if the last document is in effect."""
        return not self.refusal

    def observe(self, observer: Callable[[Configuration], None]) -> None:
        """Call the observer with the former configuration after each change."""
        self._observers.append(observer)

    def replace(self, text: str | bytes, source: str, now: float) -> list[str]:
        """Apply the document; return the keys that changed.

        Raises DocumentError, which names the source, and keeps the reason in `refusal`.
        """
        try:
            given = self.adjusted(load(text, source))
            self._check_live(given, source)
        except DocumentError as error:
            self.refuse(str(error))
            raise
        self.refusal = ""
        before = self.current
        changed = (
            []
            if given == before
            else list_changed_keys(write_section(before), write_section(given))
        )
        if changed:
            self.current = given
            self.since = now
            self.generation += 1
            for observer in self._observers:
                observer(before)
        return changed

    def refuse(self, reason: str) -> None:
        """Keep the reason why the last document is not in effect."""
        self.refusal = " ".join(reason.split())

    def _check_live(self, given: Configuration, source: str) -> None:
        if given.scheduler_name != self.current.scheduler_name:
            raise DocumentError(
                f"{shown(given.scheduler_name)} needs a restart; until then it is"
                f" {shown(self.current.scheduler_name)}",
                ("schedulerName",),
                source,
            )


def list_changed_keys(before: object, after: object, prefix: str = "") -> list[str]:
    """Return the dotted keys that differ between two documents."""
    if isinstance(before, dict) and isinstance(after, dict):
        return [
            changed
            for key in dict.fromkeys((*before, *after))
            for changed in list_changed_keys(before.get(key), after.get(key), f"{prefix}.{key}")
        ]
    return [] if before == after else [prefix.removeprefix(".")]


def in_a_line(changed: list[str]) -> str:
    """Return the first changed keys, and the number of the others, on a line."""
    more = f" and {len(changed) - _TOLD} more" if len(changed) > _TOLD else ""
    return ", ".join(changed[:_TOLD]) + more
