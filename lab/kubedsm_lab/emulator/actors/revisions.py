"""The ReplicaSets of a Deployment as its revisions: what they are made of and how they compare."""

import re

import attrs

from kubedsm_lab.emulator.actors.ownership import controller_reference
from kubedsm_lab.emulator.actors.pod_state import annotations_of, labels_of
from kubedsm_lab.emulator.actors.rollout import Share, max_surge, wanted
from kubedsm_lab.emulator.actors.template_hash import canonical, template_hash
from kubedsm_lab.emulator.api.resources import DEPLOYMENTS, Object

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
_DESIRED = "deployment.kubernetes.io/desired-replicas"
_MOST = "deployment.kubernetes.io/max-replicas"
_WHOLE = re.compile("[0-9]{1,18}")
#: a Deployment's own, which its ReplicaSets do not inherit
_NOT_INHERITED = frozenset(
    {REVISION, _DESIRED, _MOST, "kubectl.kubernetes.io/last-applied-configuration"}
)


@attrs.frozen
class Family:
    """A Deployment and its ReplicaSets, the older ones oldest first."""

    deployment: Object
    #: of the current template
    new: Object | None
    old: list[Object]

    @property
    def everything(self) -> list[Object]:
        return [*self.old, self.new] if self.new else self.old


def replica_set_of(deployment: Object, revision: int) -> Object:
    """A new one for the current template, still without pods."""
    spec, name = deployment["spec"], deployment["metadata"]["name"]
    template, selector = spec["template"], spec["selector"]
    patience = spec.get("minReadySeconds", 0)
    suffix = template_hash(template, deployment["status"].get("collisionCount", 0))
    labels = {**labels_of(template), HASH_LABEL: suffix}
    matched = {**(selector.get("matchLabels") or {}), HASH_LABEL: suffix}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{name}-{suffix}",
            "labels": labels,
            "annotations": {**inherited(deployment), **sizing(deployment), REVISION: str(revision)},
            "ownerReferences": [controller_reference(DEPLOYMENTS, deployment)],
        },
        "spec": {
            "replicas": 0,
            **({"minReadySeconds": patience} if patience else {}),
            "selector": {**selector, "matchLabels": matched},
            "template": {**template, "metadata": {**template["metadata"], "labels": labels}},
        },
    }


def has_template(replica_set: Object, template: Object) -> bool:
    """Whether it is the Deployment's, but for the label of its hash."""
    own = replica_set["spec"]["template"]
    labels = {name: v for name, v in labels_of(own).items() if name != HASH_LABEL}
    own = {**own, "metadata": {**own["metadata"], "labels": labels}}
    return own == template or canonical(own) == canonical(template)


def revision_of(replica_set: Object) -> int:
    return _number(replica_set, REVISION)


def _number(replica_set: Object, annotation: str) -> int:
    """What it says; 0 if there is none, or if what is written there is no number."""
    text = annotations_of(replica_set).get(annotation, "")
    return int(text) if _WHOLE.fullmatch(text) else 0


def inherited(deployment: Object) -> dict[str, str]:
    annotations = annotations_of(deployment).items()
    return {name: value for name, value in annotations if name not in _NOT_INHERITED}


def sizing(deployment: Object) -> dict[str, str]:
    """What a ReplicaSet remembers of the size of the Deployment that it was sized for."""
    replicas = wanted(deployment)
    return {_DESIRED: str(replicas), _MOST: str(replicas + max_surge(deployment))}


def is_scaled(family: Family) -> bool:
    """The Deployment's size was changed since its ReplicaSets got theirs."""
    desired = str(wanted(family.deployment))
    return any(
        annotations_of(rs).get(_DESIRED, desired) != desired
        for rs in family.everything
        if wanted(rs)
    )


def is_saturated(deployment: Object, new: Object) -> bool:
    replicas = wanted(deployment)
    return (
        wanted(new) == replicas
        and annotations_of(new).get(_DESIRED) == str(replicas)
        and new["status"].get("availableReplicas", 0) == replicas
    )


def share_of(replica_set: Object, replicas: int) -> Share:
    metadata = replica_set["metadata"]
    most = _number(replica_set, _MOST)
    return Share(
        metadata["name"],
        wanted(replica_set),
        metadata["creationTimestamp"],
        most or replica_set["status"].get("replicas", 0) or max(1, replicas),
    )
