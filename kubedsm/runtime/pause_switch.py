"""The pause switch: `paused: "true"` in the scheduler's ConfigMap stops all new moves.

    kubectl -n kubedsm patch configmap kubedsm --type merge -p '{"data": {"paused": "true"}}'

What has begun is finished. A switch that cannot be seen is taken for set: moving less is safe.
"""

import attrs
import structlog

from kubedsm.runtime.config_map import FollowedConfigMap
from kubedsm.said_by_cause import SaidByCause

log = structlog.get_logger()

KEY = "paused"


@attrs.frozen(slots=True)
class PauseSwitch:
    config_map: FollowedConfigMap
    said: SaidByCause

    def __call__(self) -> bool:
        """Whether nothing may be moved, for a mover, who is told why if the switch is unknown."""
        if not self.config_map.known:
            why = self.config_map.trouble or "not read yet"
            self.said.log(log.warning, "pause switch unknown, nothing is moved", why)
        return self.is_set

    @property
    def is_set(self) -> bool:
        """Whether it is, or may be."""
        if not self.config_map.known:
            return True
        found = self.config_map.found
        return found is not None and found.data.get(KEY, "").strip().lower() == "true"
