"""What the columns of tables say, where they stand."""

from collections.abc import Iterable, Mapping

_SHARE = "the part of its Ready pods that is on edge nodes, the mean over time"
_MS = "milliseconds from when a request is due to its answer"

#: by heading
MEANINGS: Mapping[str, str] = {
    "edge ratio": "the part of its pods that a service has on the edge: the mean over services and"
    " time, 1 is all of them",
    "of optimum": "the edge ratio as a part of the greatest that any placement of the same pods"
    " could have",
    "std": "how far the services' edge shares are apart: their standard deviation, 0 is all alike",
    "edge share": _SHARE,
    "mean ms": f"{_MS}: the mean",
    "p95 ms": f"{_MS}: 95 in 100 are as fast or faster",
    "network ms": "what of the mean the network takes, there and back",
    "edge ms": "the mean of the answers that say they are from the edge",
    "cloud ms": "the mean of the answers that say they are from the cloud",
    "moves": "pods moved after they had been placed, a run",
    "lost pod-s": "pod-seconds: for how long how many Ready pods were missing because of moves",
    "wait s": "seconds from a pod's creation to its binding, the mean",
    "on one node": "services of two or more pods that the death of one node would take whole, the"
    " mean over time",
    "avoidable": "of these, as many as could have had a pod on another node of the tier",
    "completed moves": "moves that were carried to their end",
    "effect measured": "of these, those whose effect on response times could be told",
    "expected ms longer": "what moves were to add to the mean response time; below 0 is faster",
    "measured ms longer": "what they added",
    "not measured": "why the others' effect cannot be told",
    "tier": "edge: near the users, scarce; cloud: far, plentiful",
    "cpu": "cores that a node has for pods, or that a pod asks for",
    "memory": "likewise",
    "pods, least to most": "how many an autoscaler may run",
    "requests/s a pod": "what the autoscaler keeps each pod at",
    "at once": "requests that a pod serves at the same time",
    "takes": "how long it serves each of them",
}


#: of the tables of docs/evaluation.md
OF_THE_PAPER: Mapping[str, str] = {
    **MEANINGS,
    "mean of all": "the edge ratio over all scenarios that were played",
    "migrations": MEANINGS["moves"],
    "moves a run": MEANINGS["moves"],
    "migrations a run": MEANINGS["moves"],
    "taken back": "of these, moves that were given up",
    "lost pod-seconds": MEANINGS["lost pod-s"],
    "pending s": MEANINGS["wait s"],
    "p95": "of that wait: 95 in 100 are as short or shorter",
    "price of a move": "what a move must gain to be made, as seconds of a pod at the edge",
    "cores": "that a pod asks for",
    "GB": "of memory that a pod asks for",
    "pods": "as many as are asked for, on average",
    "share a core": "what part of the service's edge share a core of the edge holds",
    "share a GB": "what part of it a GB of memory holds",
    "mean to kube-scheduler": "how much longer the mean is than there; below 0 is faster",
    "network to kube-scheduler": "how much longer the network's part is",
    "QoS factors": "the variant, by what edge shares it promises",
    "5 s": "the edge ratio with autoscalers that wait so long before they scale down",
}


def legend(headings: Iterable[str], meanings: Mapping[str, str] = MEANINGS) -> str:
    """Markdown: a line for each heading that needs one."""
    known = ((heading, meanings.get(heading)) for heading in headings)
    return "\n".join(f"- **{heading}**: {said}" for heading, said in known if said)
