"""JSON types of fields, checked before anything else reads an object.

The Go API server gets them from its types. Here each kind has a table of the fields that the
emulator itself reads; other fields pass unchanged. Null means absent.
"""

import datetime as dt
import re
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from kubedsm_lab.emulator.api.errors import bad_request, cannot_be_handled
from kubedsm_lab.emulator.api.resources import Object, Resource

_QUANTITY = re.compile(
    r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,3})?", re.ASCII
)
_NO_QUANTITY = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)


class QuantitySyntaxError(Exception):
    """Not a ValueError: msgspec would add to its message where it was found."""


class Quantity:
    """A resource quantity: text such as 500m, or a number."""


def of_own_type(kind: type, value: object) -> object:
    if kind is not Quantity:
        raise NotImplementedError(f"no rule for {kind}")
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number and not (isinstance(value, str) and _QUANTITY.fullmatch(value)):
        raise QuantitySyntaxError(_NO_QUANTITY)
    return _A_QUANTITY


_A_QUANTITY = Quantity()
Shape = type[msgspec.Struct]
#: types of fields; an int, a bool or a Shape is one, too
INT32: Any = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
INT_OR_TEXT: Any = INT32 | str
TIMESTAMP: Any = Annotated[dt.datetime, msgspec.Meta(tz=True)]
TEXTS: Any = list[str]
TEXT_BY_NAME: Any = dict[str, str]
QUANTITIES: Any = dict[str, Quantity]
#: an object of any fields
ANY: Any = dict[str, Any]


def shape(text: str = "", *, required: str = "", **fields: Any) -> Shape:
    """An object with these fields: names of texts, of texts that it must have, and others."""
    optional = dict.fromkeys(text.split(), str) | fields
    return msgspec.defstruct(
        "Shape",
        [
            *((name, str) for name in required.split()),
            *((name, kind | None, None) for name, kind in optional.items()),
        ],
    )


def many(kind: Any) -> Any:
    return list[kind]


def _status(text: str = "", **fields: Any) -> Shape:
    condition = shape(
        "type status reason message",
        lastTransitionTime=TIMESTAMP,
        lastUpdateTime=TIMESTAMP,
        lastProbeTime=TIMESTAMP,
        lastHeartbeatTime=TIMESTAMP,
    )
    return shape(text, conditions=many(condition), **fields)


_CONTAINERS = many(shape("name", restartCount=INT32))
#: by the name of what they are of; the first is of all that have none of their own
STATUSES: Mapping[str, Shape] = {
    "": _status(),
    "Pod": _status(
        "phase podIP",
        startTime=TIMESTAMP,
        containerStatuses=_CONTAINERS,
        initContainerStatuses=_CONTAINERS,
    ),
    "Node": _status(
        capacity=QUANTITIES,
        allocatable=QUANTITIES,
        addresses=many(shape("type address")),
        nodeInfo=ANY,
    ),
    "Workload": _status(
        "currentRevision updateRevision",
        observedGeneration=int,
        **dict.fromkeys(
            (
                *("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"),
                *("unavailableReplicas", "terminatingReplicas", "fullyLabeledReplicas"),
                *("currentReplicas", "collisionCount"),
            ),
            INT32,
        ),
    ),
    "Budget": _status(
        observedGeneration=int,
        disruptedPods=dict[str, TIMESTAMP | None],
        disruptionsAllowed=INT32,
        currentHealthy=INT32,
        desiredHealthy=INT32,
        expectedPods=INT32,
    ),
    "Autoscaler": _status(
        lastScaleTime=TIMESTAMP,
        currentReplicas=INT32,
        desiredReplicas=INT32,
        currentMetrics=many(ANY),
    ),
    "Job": _status(
        active=INT32,
        ready=INT32,
        succeeded=INT32,
        failed=INT32,
        terminating=INT32,
        startTime=TIMESTAMP,
        completionTime=TIMESTAMP,
        uncountedTerminatedPods=ANY,
    ),
    "Quota": _status(hard=QUANTITIES, used=QUANTITIES),
}


_OWNER = shape(required="apiVersion kind name uid", controller=bool, blockOwnerDeletion=bool)
_METADATA = shape(
    "name generateName namespace uid resourceVersion creationTimestamp deletionTimestamp",
    generation=int,
    labels=TEXT_BY_NAME,
    annotations=TEXT_BY_NAME,
    finalizers=TEXTS,
    ownerReferences=many(_OWNER),
)
_SELECTOR = shape(
    matchLabels=TEXT_BY_NAME,
    matchExpressions=many(shape(required="key operator", values=TEXTS)),
)
_CONTAINER = shape(
    "name image imagePullPolicy restartPolicy",
    command=TEXTS,
    args=TEXTS,
    resources=shape(requests=QUANTITIES, limits=QUANTITIES),
    ports=many(shape("name protocol", containerPort=int, hostPort=int)),
    env=many(shape("name value", valueFrom=ANY)),
    volumeMounts=many(shape("name mountPath")),
    livenessProbe=ANY,
    readinessProbe=ANY,
    startupProbe=ANY,
)
_POD = shape(
    "nodeName schedulerName restartPolicy priorityClassName preemptionPolicy serviceAccountName",
    containers=many(_CONTAINER),
    initContainers=many(_CONTAINER),
    volumes=many(ANY),
    nodeSelector=TEXT_BY_NAME,
    affinity=ANY,
    tolerations=many(shape("key operator value effect", tolerationSeconds=int)),
    topologySpreadConstraints=many(
        shape("topologyKey whenUnsatisfiable", maxSkew=int, labelSelector=_SELECTOR, minDomains=int)
    ),
    schedulingGates=many(shape(required="name")),
    terminationGracePeriodSeconds=int,
    priority=int,
    automountServiceAccountToken=bool,
    hostNetwork=bool,
    overhead=QUANTITIES,
)
_STRATEGY = shape(
    "type",
    rollingUpdate=shape(maxSurge=INT_OR_TEXT, maxUnavailable=INT_OR_TEXT, partition=INT32),
)
#: of a Deployment, a ReplicaSet or a StatefulSet
_WORKLOAD = shape(
    "podManagementPolicy serviceName",
    replicas=INT32,
    selector=_SELECTOR,
    template=shape(metadata=_METADATA, spec=_POD),
    minReadySeconds=INT32,
    revisionHistoryLimit=INT32,
    progressDeadlineSeconds=INT32,
    strategy=_STRATEGY,
    updateStrategy=_STRATEGY,
    ordinals=shape(start=INT32),
    persistentVolumeClaimRetentionPolicy=TEXT_BY_NAME,
)
_JOB = shape(
    "completionMode podReplacementPolicy",
    **dict.fromkeys(
        ("parallelism", "completions", "backoffLimit", "ttlSecondsAfterFinished"), INT32
    ),
    activeDeadlineSeconds=int,
    selector=_SELECTOR,
    template=shape(metadata=_METADATA, spec=_POD),
    suspend=bool,
    manualSelector=bool,
)
_SERVICE = shape(
    "type clusterIP",
    selector=TEXT_BY_NAME,
    ports=many(shape("name protocol", port=int, targetPort=INT_OR_TEXT, nodePort=int)),
)
_NODE = shape(
    unschedulable=bool,
    taints=many(shape("value", required="key effect", timeAdded=TIMESTAMP)),
)
_TARGET = shape("kind name apiVersion")
_METRIC = shape("type", resource=ANY, containerResource=ANY, pods=ANY, object=ANY, external=ANY)
_AUTOSCALER = shape(
    scaleTargetRef=_TARGET,
    minReplicas=INT32,
    maxReplicas=INT32,
    metrics=many(_METRIC),
    behavior=dict[str, dict[str, Any] | None],
    targetCPUUtilizationPercentage=INT32,
)
_BUDGET = shape(minAvailable=INT_OR_TEXT, maxUnavailable=INT_OR_TEXT, selector=_SELECTOR)
_LEASE = shape(
    "holderIdentity acquireTime renewTime", leaseDurationSeconds=int, leaseTransitions=int
)
_REFERENCE = shape("kind namespace name uid apiVersion resourceVersion fieldPath")
_SOURCE = shape("component host")


#: of a role
_RULES = many(
    shape(verbs=TEXTS, apiGroups=TEXTS, resources=TEXTS, resourceNames=TEXTS, nonResourceURLs=TEXTS)
)
_SELECTORS = many(_SELECTOR)
_ROLE_REFERENCE = shape("apiGroup kind name")
_SUBJECTS = many(shape("apiGroup namespace", required="kind name"))
_ACCESS_REVIEW = shape(
    "user uid namespace",
    groups=TEXTS,
    resourceAttributes=shape("namespace verb group version resource subresource name"),
    nonResourceAttributes=shape("path verb"),
)
_TOKEN = shape(audiences=TEXTS, expirationSeconds=int, boundObjectRef=ANY)


def _kind(text: str = "", *, spec: Any = ANY, status: str = "", **fields: Any) -> Shape:
    return shape(text, metadata=_METADATA, spec=spec, status=STATUSES[status], **fields)


class _Preconditions(msgspec.Struct, rename="camel"):
    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(msgspec.Struct, rename="camel"):
    """meta/v1 DeleteOptions, the body of a DELETE."""

    grace_period_seconds: int | None = None
    preconditions: _Preconditions | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    dry_run: list[str] | None = None


_PLAIN = _kind()
_BINDINGS = _kind(roleRef=_ROLE_REFERENCE, subjects=_SUBJECTS)
_ACCESS_REVIEWS = _kind(spec=_ACCESS_REVIEW)
_WORKLOADS = _kind(spec=_WORKLOAD, status="Workload")
_OF_KIND: Mapping[str, Shape] = {
    "Pod": _kind(spec=_POD, status="Pod"),
    "Deployment": _WORKLOADS,
    "ReplicaSet": _WORKLOADS,
    "StatefulSet": _WORKLOADS,
    "Job": _kind(spec=_JOB, status="Job"),
    "Service": _kind(spec=_SERVICE),
    "Node": _kind(spec=_NODE, status="Node"),
    "HorizontalPodAutoscaler": _kind(spec=_AUTOSCALER, status="Autoscaler"),
    "PodDisruptionBudget": _kind(spec=_BUDGET, status="Budget"),
    "ResourceQuota": _kind(spec=shape(hard=QUANTITIES), status="Quota"),
    "Namespace": _kind(spec=shape(finalizers=TEXTS)),
    "ConfigMap": _kind(data=TEXT_BY_NAME),
    "Lease": _kind(spec=_LEASE),
    "PriorityClass": _kind("description preemptionPolicy", value=INT32, globalDefault=bool),
    "Event": _kind(
        "firstTimestamp lastTimestamp reason message note type eventTime action"
        " reportingController reportingComponent reportingInstance",
        involvedObject=_REFERENCE,
        regarding=_REFERENCE,
        source=_SOURCE,
        deprecatedSource=_SOURCE,
        count=int,
    ),
    "Role": _kind(rules=_RULES),
    "ClusterRole": _kind(rules=_RULES, aggregationRule=shape(clusterRoleSelectors=_SELECTORS)),
    "RoleBinding": _BINDINGS,
    "ClusterRoleBinding": _BINDINGS,
    "SubjectAccessReview": _ACCESS_REVIEWS,
    "LocalSubjectAccessReview": _ACCESS_REVIEWS,
    "SelfSubjectAccessReview": _ACCESS_REVIEWS,
    "SelfSubjectRulesReview": _ACCESS_REVIEWS,
    "TokenRequest": _kind(spec=_TOKEN),
    "Binding": _kind(target=_TARGET),
    "Eviction": _kind(deleteOptions=DeleteOptions),
    "Scale": _kind(spec=shape(replicas=INT32)),
}

_BINDING = Resource("", "v1", "bindings", "binding", "Binding")
_EVICTION = Resource("policy", "v1", "evictions", "eviction", "Eviction")
_TOKEN_REQUEST = Resource(
    "authentication.k8s.io", "v1", "tokenrequests", "tokenrequest", "TokenRequest"
)
SCALE = Resource("autoscaling", "v1", "scales", "scale", "Scale")


def check_types(resource: Resource, obj: Any) -> Object:
    """The object, if it is one of that resource's kind. Raises ApiError (400)."""
    if not isinstance(obj, dict):
        raise cannot_be_handled(resource, "the body is not an object")
    kind, version = obj.get("kind"), obj.get("apiVersion")
    if kind and kind != resource.kind:
        raise bad_request(
            f'{kind} in version "{version}" cannot be handled as a {resource.kind}: '
            f"no kind is registered for the type {kind} here"
        )
    if version and version != resource.api_version:
        raise bad_request(
            f"the API version in the data ({version}) does not match "
            f"the expected API version ({resource.api_version})"
        )
    _convert(resource, obj, _OF_KIND.get(resource.kind, _PLAIN))
    return obj


def check_binding(obj: Any) -> Object:
    return check_types(_BINDING, obj)


def check_eviction(obj: Any) -> Object:
    return check_types(_EVICTION, obj)


def check_scale(obj: Any) -> Object:
    return check_types(SCALE, obj)


def check_token_request(obj: Any) -> Object:
    return check_types(_TOKEN_REQUEST, obj)


def delete_options(obj: Any) -> DeleteOptions:
    """Raises ApiError (400)."""
    try:
        return msgspec.convert(obj or {}, DeleteOptions)
    except msgspec.ValidationError as error:
        raise bad_request(f"DeleteOptions cannot be decoded: {error}") from None


def preconditions(options: DeleteOptions) -> tuple[str, str]:
    """The uid and the resourceVersion that must still hold, empty for any."""
    given = options.preconditions or _Preconditions()
    return given.uid or "", given.resource_version or ""


def _convert(resource: Resource, obj: Object, fields: Shape) -> None:
    try:
        msgspec.convert(obj, fields, dec_hook=of_own_type)
    except (msgspec.ValidationError, QuantitySyntaxError) as error:
        raise cannot_be_handled(resource, str(error)) from None
