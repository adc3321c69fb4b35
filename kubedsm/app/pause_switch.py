"""Pause switch: `paused: "true"` in the scheduler's ConfigMap stops all new migrations.

    kubectl -n kubedsm patch configmap kubedsm --type merge -p '{"data": {"paused": "true"}}'

Migrations in progress are finished. An unreadable switch or an invalid value counts as set, since
fewer migrations are the safe choice.
"""

from collections.abc import Callable

import attrs
import structlog

from kubedsm.config.documents import shown
from kubedsm.kube.watching.config_map import FollowedConfigMap
from kubedsm.kube.wire.decoding import ConfigMap
from kubedsm.process.log_throttle import LogThrottle

log = structlog.get_logger()

KEY = "paused"
ON, OFF = ("true", "yes", "on", "1"), ("false", "no", "off", "0", "")


@attrs.define
class PauseSwitch:
    config_map: FollowedConfigMap
    throttle: LogThrottle
    #: callback for an invalid value, with the reason
    on_refused: Callable[[ConfigMap, str], None]
    #: previously reported value
    _told: str = attrs.field(default="", init=False)

    def __attrs_post_init__(self) -> None:
        self.config_map.observe(self._observe_state)

    def __call__(self) -> bool:
        """Return True if no migration may begin: the pause switch is set, or unknown (logged with
        the reason).
        """
        trouble = self.config_map.trouble
        if trouble and not self.config_map.known:
            self.throttle.log(log.warning, "pause switch unknown, migrations paused", trouble)
        return self.is_set

    @property
    def is_set(self) -> bool:
        """Return True if the pause switch is set, unreadable, or has an invalid value."""
        if not self.config_map.known:
            return True
        return bool(explain_pause(self.config_map.found))

    def _observe_state(self, found: ConfigMap | None) -> None:
        before, now = self._told, _value_in(found)
        self._told = now
        was_on, is_on = _is_on(before), _is_on(now)
        if is_on is None and found is not None and now != before:
            why = explain_pause(found)
            log.warning("pause switch refused", error=why, config_map=str(self.config_map.name))
            self.on_refused(found, why)
        elif is_on is not was_on:
            say, event = (log.warning, "paused") if is_on else (log.info, "resumed")
            say(event, config_map=str(self.config_map.name))


def explain_pause(found: ConfigMap | None) -> str:
    """Return why the ConfigMap pauses migrations; empty if it does not."""
    value = _value_in(found)
    is_on = _is_on(value)
    if is_on is None:
        return f"{KEY}: {shown(value)} is neither true nor false; migrations are paused until it is"
    return "migrations are paused" if is_on else ""


def _value_in(found: ConfigMap | None) -> str:
    return "" if found is None else found.data.get(KEY, "")


def _is_on(value: str) -> bool | None:
    """Parse the pause switch's value as a boolean; None if invalid."""
    said = value.strip().lower()
    return True if said in ON else False if said in OFF else None
