"""First contact with an API server: does it respond, and may this process list nodes and pods?

In a pod, an API server that does not respond is awaited without limit: an exit would only make the
kubelet back off longer before each restart. From a terminal the limit is `PATIENCE` seconds. Only
failures that no retry can mend end the wait earlier.
"""

import math
import random
from collections.abc import Callable

from kubedsm.kube.calls import reads
from kubedsm.kube.calls.explained_cluster import MissingRightError, missing_right
from kubedsm.kube.client.api_errors import send
from kubedsm.kube.client.port import (
    Cluster,
    ClusterError,
    Forbidden,
    Request,
    Unauthorized,
)
from kubedsm.kube.watching.watched import NODES, PODS
from kubedsm.kube.wire.errors import WireError
from kubedsm.process.backoff import Backoff
from kubedsm.process.clock import Clock
from kubedsm.process.log_throttle import cause_of

#: seconds for each response
TIMEOUT = 10.0
#: seconds; in a pod only for a missing right, which may be granted soon; elsewhere for all failures
PATIENCE = 30.0
#: seconds, less than the first pause: one retry, with credentials that were read again
RENEWAL = 0.5
#: longest back-off in seconds
LONGEST_PAUSE = 10.0


#: failures whose patience counts from their own start
LOCKED_OUT = (MissingRightError, Unauthorized)


class NotJoinedError(ClusterError):
    """The API server refused access, or did not respond before the deadline."""


async def greet(cluster: Cluster, *, timeout: float) -> str:
    """Check the rights to list nodes and pods; return the server's version if it is readable.

    Raises MissingRightError, ClusterError, or WireError if the server is no API server.
    """
    try:
        version = await reads.version(cluster, timeout=timeout)
    except Forbidden:
        version = "unknown"
    for kind in (NODES, PODS):
        request = Request("GET", kind.path, {"limit": "1"})
        try:
            await send(cluster, request, timeout)
        except Forbidden as error:
            raise missing_right(request, error) from None
    return version


async def join(
    cluster: Cluster,
    clock: Clock,
    rng: random.Random,
    report: Callable[[str], None],
    *,
    in_pod: bool,
) -> str:
    """Retry `greet` until it succeeds; return the server's version.

    `report` gets a log line at the first failure and when its cause changes. Raises NotJoinedError
    at the end of the patience.
    """
    backoff = Backoff(rng, most=LONGEST_PAUSE)
    began = since = clock.monotonic()
    sort, cause = None, ""
    while True:
        try:
            return await greet(cluster, timeout=TIMEOUT)
        except (ClusterError, WireError) as error:
            now = clock.monotonic()
            if type(error) is not sort:
                sort, since = type(error), now
            waited = now - (since if isinstance(error, LOCKED_OUT) else began)
            patience = _patience(error, in_pod=in_pod)
            if waited >= patience:
                after = f"; gave up after {waited:.0f} s" if patience >= PATIENCE else ""
                raise NotJoinedError(f"{error}{after}") from None
            if patience >= PATIENCE and cause_of(str(error)) != cause:
                cause = cause_of(str(error))
                report(f"API server: {error}; trying again")
        await clock.sleep(backoff.count_failure())


def _patience(error: ClusterError | WireError, *, in_pod: bool) -> float:
    """Return the seconds for which a retry may help."""
    if isinstance(error, MissingRightError):
        return PATIENCE if in_pod else 0.0
    if in_pod:
        return math.inf
    return RENEWAL if isinstance(error, Unauthorized) else PATIENCE
