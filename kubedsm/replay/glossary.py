"""What the columns of tables say, where they stand."""

from collections.abc import Iterable, Mapping

_SHARE = "the part of its Ready pods that is on edge nodes, the mean over time"
_MS = "milliseconds from when a request is due to its answer"

#: by heading, or by how it begins before a comma
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
    "pods": "how many an autoscaler may run, from the least to the most",
    "requests/s a pod": "what the autoscaler keeps each pod at",
    "at once": "requests that a pod serves at the same time",
    "takes": "how long it serves each of them",
}


def meaning(heading: str) -> str | None:
    return MEANINGS.get(heading) or MEANINGS.get(heading.partition(",")[0])


def legend(headings: Iterable[str]) -> str:
    """Markdown: a line for each heading that needs one."""
    known = ((heading, meaning(heading)) for heading in headings)
    return "\n".join(f"- **{heading}**: {said}" for heading, said in known if said)
