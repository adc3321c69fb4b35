"""First contact with an API server: check of connectivity, and of rights to list nodes and pods.

In a pod, an unresponsive API server is awaited without limit: exiting would only increase the
kubelet's restart back-off. From a terminal the limit is `PATIENCE` seconds. Only permanent failures
end the wait earlier.
"""

import math
import random
from collections.abc import Callable

from kubedsm.kube.calls import reads
from kubedsm.kube.calls.explained_cluster import MissingRightError, missing_right
from kubedsm.kube.client.api_errors import send
from kubedsm.kube.client.port import Cluster, ClusterError, Forbidden, Request, Unauthorized
from kubedsm.kube.wire.decoding import NODES, PODS
from kubedsm.process.backoff import Backoff
from kubedsm.process.clock import Clock
from kubedsm.process.log_throttle import cause_of

#: seconds; inside a pod only for a missing right, which may be granted soon
PATIENCE = 30.0
#: seconds, less than the first pause: a single retry with reloaded credentials
RENEWAL = 0.5
#: longest back-off in seconds
LONGEST_PAUSE = 10.0


#: failures whose patience counts from their own start
LOCKED_OUT = (MissingRightError, Unauthorized)


class NotJoinedError(ClusterError):
    """Error: the API server refused access, or did not respond before the deadline."""


async def greet(cluster: Cluster) -> str:
    """Check rights to list nodes and pods; return the API server's version, if readable.

    Raises MissingRightError, ClusterError.
    """
    try:
        version = await reads.version(cluster)
    except Forbidden:
        version = "unknown"
    for kind in (NODES, PODS):
        try:
            await send(cluster, "GET", kind.path, query={"limit": "1"})
        except Forbidden as error:
            raise missing_right(Request("GET", kind.path), error) from None
    return version


async def join(
    cluster: Cluster,
    clock: Clock,
    rng: random.Random,
    report: Callable[[str], None],
    *,
    in_pod: bool,
) -> str:
    """Wait for the API server: retry `greet` until success, and return the server's version.

    `report` gets a log line at the first failure, and at a change of cause. Raises NotJoinedError
    at the end of the patience.
    """
    backoff = Backoff(rng, most=LONGEST_PAUSE)
    began = since = clock.monotonic()
    sort, cause = None, ""
    while True:
        try:
            return await greet(cluster)
        except ClusterError as error:
            now = clock.monotonic()
            if type(error) is not sort:
                sort, since = type(error), now
            waited = now - (since if isinstance(error, LOCKED_OUT) else began)
            patience = _patience_for(error, in_pod=in_pod)
            if waited >= patience:
                after = f"; gave up after {waited:.0f} s" if patience >= PATIENCE else ""
                raise NotJoinedError(f"{error}{after}") from None
            if patience >= PATIENCE and cause_of(str(error)) != cause:
                cause = cause_of(str(error))
                report(f"API server: {error}; trying again")
        await clock.sleep(backoff.count_failure())


def _patience_for(error: ClusterError, *, in_pod: bool) -> float:
    """Return the number of seconds during which to retry after the error."""
    if isinstance(error, MissingRightError):
        return PATIENCE if in_pod else 0.0
    if in_pod:
        return math.inf
    return RENEWAL if isinstance(error, Unauthorized) else PATIENCE
