"""What a workload weighs by the requests that it answers.

Where it weighs as much as its rate, its edge share counts as often as there are requests that
notice it: the QoS is that of requests, not of workloads.
"""

from collections.abc import Callable, Mapping

import attrs

from kubedsm.model.model import Share, Workload
from kubedsm.objective.objective import GREATEST, Promise, Promises

#: Requests/s; None where nobody knows.
Rates = Callable[[Workload], float | None]


def by_traffic(promises: Promises, shares: Mapping[Workload, Share], rates: Rates) -> Promises:
    """The promises, weights times the workload's rate over the mean rate of those present.

    One without a rate is taken to answer with each of its pods as many requests as those with a
    rate do on average: replicas follow load. Where there is no rate at all, weights stay.
    """
    asked = {workload: rates(workload) for workload in shares}
    known = {workload: rate for workload, rate in asked.items() if rate is not None}
    total = sum(known.values())
    if not total:
        return promises
    per_pod = total / sum(shares[workload].total for workload in known)
    taken = {w: known.get(w, per_pod * share.total) for w, share in shares.items()}
    mean = sum(taken.values()) / len(taken)

    def weighed(workload: Workload) -> Promise:
        promise = promises(workload)
        if workload not in taken:
            return promise
        weight = min(promise.weight * (taken[workload] / mean), GREATEST)
        return attrs.evolve(promise, weight=weight)

    return weighed
