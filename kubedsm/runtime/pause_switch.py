"""The pause switch: `paused: "true"` in the scheduler's ConfigMap stops all new moves.

    kubectl -n kubedsm patch configmap kubedsm --type merge -p '{"data": {"paused": "true"}}'

What has begun is finished. A switch that cannot be read is taken for set: moving less is safe.
"""

import attrs
import structlog

from kubedsm.cluster.calls import verbs
from kubedsm.cluster.client.port import Cluster, ClusterError, NotFound
from kubedsm.cluster.wire.decoding import WireError
from kubedsm.said_by_cause import SaidByCause

log = structlog.get_logger()

KEY = "paused"


@attrs.frozen(slots=True)
class PauseSwitch:
    cluster: Cluster
    namespace: str
    timeout: float
    said: SaidByCause
    name: str = "kubedsm"

    async def __call__(self) -> bool:
        try:
            found = await verbs.get_config_map(
                self.cluster, self.namespace, self.name, timeout=self.timeout
            )
        except NotFound:
            return False
        except (ClusterError, WireError) as error:
            self.said.log(log.warning, "pause switch unreadable, nothing is moved", error)
            return True
        return found.data.get(KEY, "").strip().lower() == "true"
