"""The first words with an API server: is it there, and may we see what we decide by?

An API server that is sick, or not there yet, is waited for: in a pod as long as it takes, for
ending would only make the kubelet wait longer each time before it starts us again; from a terminal
for `PATIENCE` seconds. Only what can never work ends it before.
"""

import math
import random
from collections.abc import Callable

from kubedsm.kube.calls import verbs
from kubedsm.kube.calls.explained_cluster import MissingRightError, missing_right
from kubedsm.kube.client.api_errors import body_of
from kubedsm.kube.client.port import Cluster, ClusterError, Forbidden, Request, Unauthorized
from kubedsm.kube.watching.watched import NODES, PODS
from kubedsm.kube.wire.decoding import WireError
from kubedsm.process.backoff import Backoff
from kubedsm.process.clock import Clock
from kubedsm.process.log_throttle import cause_of

#: seconds for each answer
TIMEOUT = 10.0
#: seconds; in a pod for a missing right, which may be granted a moment later, elsewhere for all
PATIENCE = 30.0
#: seconds; less than the first pause: once more, with credentials that were read anew
RENEWAL = 0.5
#: seconds between two tries at most
LONGEST_PAUSE = 10.0


#: what counts from when it began, not from when we did
LOCKED_OUT = (MissingRightError, Unauthorized)


class NotJoinedError(ClusterError):
    """The API server does not let us in, or did not come to answer in time."""


async def greet(cluster: Cluster, *, timeout: float) -> str:
    """The server's version, if it says it, once it has let us see nodes and pods.

    Raises MissingRightError, ClusterError, or WireError if what answers is no API server.
    """
    try:
        version = await verbs.version(cluster, timeout=timeout)
    except Forbidden:
        version = "unknown"
    for kind in (NODES, PODS):
        request = Request("GET", kind.path, {"limit": "1"})
        try:
            body_of(await cluster.request(request, timeout=timeout))
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
    """The version of an API server that answers, and lets us in.

    `report` gets a line for the log when it does not, and when the cause changes. Raises
    NotJoinedError when patience is at its end.
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
        await clock.sleep(backoff.failed())


def _patience(error: ClusterError | WireError, *, in_pod: bool) -> float:
    """For how many seconds it is worth trying again."""
    if isinstance(error, MissingRightError):
        return PATIENCE if in_pod else 0.0
    if in_pod:
        return math.inf
    return RENEWAL if isinstance(error, Unauthorized) else PATIENCE
