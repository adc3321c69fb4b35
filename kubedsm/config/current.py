"""Holder of the configuration currently in effect, with its time and generation.

Rules. Each use of a setting reads `current` again, without a copy. Documents are applied
atomically: after an invalid document the last valid configuration stays in effect. `replace` is
synchronous, hence all readers observe the same configuration.
"""

from collections.abc import Callable

import attrs

from kubedsm.config.documents import DocumentError, shown
from kubedsm.config.fields import write_section
from kubedsm.config.settings import Configuration, load

#: changed keys in a log line
_TOLD = 10


def as_given(configuration: Configuration) -> Configuration:
    """Return the configuration unchanged: the default adjustment of CurrentConfiguration."""
    return configuration


@attrs.define
class CurrentConfiguration:
    current: Configuration = attrs.field(factory=Configuration)
    #: activation time, in seconds since the epoch
    since: float = 0.0
    #: number of activated configurations, the initial configuration included
    generation: int = 1
    #: one-line reason for refusing the latest document; empty if accepted
    refusal: str = ""
    #: transformation of every accepted configuration, such as for a dry run
    adjusted: Callable[[Configuration], Configuration] = attrs.field(default=as_given, kw_only=True)
    #: callbacks, invoked after each activation
    _observers: list[Callable[[Configuration], None]] = attrs.field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        self.current = self.adjusted(self.current)

    @property
    def valid(self) -> bool:
        """True if the latest configuration document was valid, and is therefore in effect."""
        return not self.refusal

    def observe(self, observer: Callable[[Configuration], None]) -> None:
        """Register a callback, invoked with the former configuration after each change."""
        self._observers.append(observer)

    def replace(self, text: str | bytes, source: str, now: float) -> list[str]:
        """Validate a new configuration document and put it into effect; return the changed keys.

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
        """Record why the latest configuration was refused; the former one stays in effect."""
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
    """Return the dotted keys whose values differ between two configuration documents."""
    if isinstance(before, dict) and isinstance(after, dict):
        return [
            changed
            for key in dict.fromkeys((*before, *after))
            for changed in list_changed_keys(before.get(key), after.get(key), f"{prefix}.{key}")
        ]
    return [] if before == after else [prefix.removeprefix(".")]


def in_a_line(changed: list[str]) -> str:
    """Format changed configuration keys on one line: the first few, and how many more."""
    more = f" and {len(changed) - _TOLD} more" if len(changed) > _TOLD else ""
    return ", ".join(changed[:_TOLD]) + more
