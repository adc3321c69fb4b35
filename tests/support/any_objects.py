"""Hypothesis strategies for API objects with arbitrary valid values, and for clusters of them."""

from hypothesis import strategies as st

from kubedsm.kube.wire import decoding
from kubedsm.model.events import NodeApplied, PodApplied
from kubedsm.model.mirror import ClusterMirror
from kubedsm.objective.objective import Objective, QosTarget

_ORDINARY = ("0", "1m", "250m", "1", "2", "64Mi", "1Gi", "3e3", "0.0001")
_ABSURD = ("1n", "100T", "1E", "1e20", "9223372036854775807", "1Ei", "7Ei", "1Pi", "12E")
_AMOUNTS = st.sampled_from(_ORDINARY * 2 + _ABSURD)
RESOURCES = ("cpu", "memory", "pods", "ephemeral-storage", "hugepages-2Mi", "example.com/gpu")
_REQUESTS = st.one_of(
    st.just({"cpu": "250m", "memory": "64Mi"}),
    st.dictionaries(st.sampled_from(RESOURCES), _AMOUNTS, max_size=3),
)
_INT32 = 2**31 - 1
_LONG_KEY, _LONGEST = "l" * 253 + "/" + "k" * 63, "v" * 63
_AGES = ("0001-01-01T00:00:00Z", "2026-01-01T00:00:00.123456789Z", "9999-12-31T23:59:59Z")
_TIERS = st.sampled_from(("edge", "cloud", "none", ""))
_APPS = st.sampled_from(("a", "b", "c"))
_KEYS = st.sampled_from(("kubernetes.io/hostname", "topology.kubernetes.io/zone", "k" * 63))


#: value of a field that is left out
_ABSENT = object()


def _shaped(shape):
    """Return the strategy of values like `shape`, in which strategies stand for their values."""
    if isinstance(shape, dict):
        fields = st.fixed_dictionaries({key: _shaped(value) for key, value in shape.items()})
        return fields.map(lambda drawn: {k: v for k, v in drawn.items() if v is not _ABSENT})
    if isinstance(shape, list):
        return st.tuples(*map(_shaped, shape)).map(list)
    return shape if isinstance(shape, st.SearchStrategy) else st.just(shape)


def _one_of(*shapes):
    return st.one_of(*map(_shaped, shapes))


def _expressions(key, values):
    """Return the shape of a term with one expression, whose operator may need values."""
    named = {"operator": st.sampled_from(("In", "NotIn")), "values": values}
    alone = {"operator": st.sampled_from(("Exists", "DoesNotExist"))}
    return {"matchExpressions": [_one_of({"key": key, **named}, {"key": key, **alone})]}


_SELECTORS = st.none() | _one_of(
    {},
    {"matchLabels": {"app": _APPS}},
    _expressions("app", st.lists(_APPS, min_size=1, max_size=3)),
)
_LABEL_KEYS = st.lists(st.sampled_from(("app", "pod-template-hash", "missing")), max_size=2)
_SCOPES = (
    {},
    {"namespaces": ["shop", "nowhere"]},
    {"namespaceSelector": {"matchLabels": {"team": "a"}}},
    {"matchLabelKeys": ["app"]},
    {"mismatchLabelKeys": ["missing"]},
)
_TERM = {"topologyKey": _KEYS, "labelSelector": _SELECTORS}
_TERMS = _one_of(*(_TERM | scope for scope in _SCOPES))
_WEIGHTED = _shaped({"weight": st.sampled_from((1, 100)), "podAffinityTerm": _TERMS})
_BOUND = {
    "key": "generation",
    "operator": st.sampled_from(("Gt", "Lt", "In", "NotIn")),
    "values": [st.sampled_from(("0", "-5", "9" * 18))],
}
_NAMED = {"key": "metadata.name", "operator": st.sampled_from(("In", "NotIn")), "values": ["edge"]}
_NODE_TERMS = _one_of(
    {"matchExpressions": [_BOUND]},
    _expressions(_LONG_KEY, [""]),
    {"matchFields": [_NAMED]},
    {},
)
_REQUIRED, _PREFERRED = (
    f"{kind}DuringSchedulingIgnoredDuringExecution" for kind in ("required", "preferred")
)


def _one_or_none(values):
    return st.lists(_shaped(values), max_size=1)


_PODS = {_REQUIRED: _one_or_none(_TERMS), _PREFERRED: _one_or_none(_WEIGHTED)}
_AFFINITIES = _shaped(
    {
        "podAffinity": _PODS,
        "podAntiAffinity": _PODS,
        "nodeAffinity": {
            _PREFERRED: _one_or_none({"weight": 100, "preference": _NODE_TERMS}),
            _REQUIRED: _one_of(_ABSENT, {"nodeSelectorTerms": [_NODE_TERMS]}),
        },
    }
)
_POLICIES = (
    {},
    {"nodeAffinityPolicy": "Honor", "nodeTaintsPolicy": "Ignore"},
    {"nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor"},
)
_SPREAD = {
    "topologyKey": _KEYS,
    "maxSkew": st.sampled_from((1, 2, _INT32)),
    "labelSelector": _SELECTORS,
    "matchLabelKeys": _LABEL_KEYS.map(lambda keys: keys or _ABSENT),
}
_DEMANDED = {
    "whenUnsatisfiable": "DoNotSchedule",
    "minDomains": st.sampled_from((_ABSENT, 1, _INT32)),
}
_SPREADS = _one_of(
    *(
        _SPREAD | policies | demand
        for policies in _POLICIES
        for demand in ({"whenUnsatisfiable": "ScheduleAnyway"}, _DEMANDED)
    )
)
_TOLERATIONS = st.sampled_from(
    (
        {"operator": "Exists"},
        {"key": "odd", "operator": "Equal", "value": "", "effect": "NoSchedule"},
        {"key": "odd", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0},
        {"key": "odd", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": -1},
    )
)
_TAINTS = _shaped(
    {
        "key": st.sampled_from(("odd", _LONG_KEY)),
        "value": st.sampled_from(("", _LONGEST)),
        "effect": st.sampled_from(("NoSchedule", "PreferNoSchedule", "NoExecute")),
    }
)


def _containers(name, least=0, most=2, **more):
    return st.lists(_REQUESTS, min_size=least, max_size=most).map(
        lambda asked: [
            {"name": f"{name}{at}", "image": "x", "resources": {"requests": requests}, **more}
            for at, requests in enumerate(asked)
        ]
    )


_HUNDRED = st.just([{"name": f"c{at}", "image": "x"} for at in range(100)])
#: of a pod's spec, beside what every pod has
_SPECS = {
    "terminationGracePeriodSeconds": st.sampled_from((0, 30, 2**63 - 1)),
    "initContainers": _containers("i") | _containers("s", restartPolicy="Always"),
    "overhead": st.sampled_from(({"cpu": "0"}, {"cpu": "1n", "memory": "7Ei"})),
    "resources": _shaped({"requests": _REQUESTS}),
    "ephemeralContainers": st.just([{"name": "debug", "image": "x"}]),
    "tolerations": st.lists(_TOLERATIONS, max_size=3),
    "nodeSelector": st.sampled_from(({}, {_LONG_KEY: ""}, {"kubedsm.io/tier": "edge"})),
    "affinity": _AFFINITIES,
    "topologySpreadConstraints": st.lists(_SPREADS, max_size=2),
    "schedulingGates": st.just([{"name": "example.com/gate"}]),
    "preemptionPolicy": st.just("Never"),
    "hostNetwork": st.booleans(),
    "volumes": st.lists(
        st.sampled_from(
            (
                {"name": "e", "emptyDir": {}},
                {"name": "c", "persistentVolumeClaim": {"claimName": "n" * 253}},
                {"name": "g", "ephemeral": {}},
                {"name": "d", "gcePersistentDisk": {"pdName": "d"}},
            )
        ),
        max_size=2,
        unique_by=lambda volume: volume["name"],
    ),
    "resourceClaims": st.just([{"name": "gpu", "resourceClaimName": "none"}]),
}
_ANNOTATIONS = st.dictionaries(
    st.sampled_from(
        (
            "kubedsm.io/qos",
            "kubedsm.io/migration",
            "kubedsm.io/rate",
            "kubedsm.io/do-not-disrupt",
            "kubedsm.io/move",
            "controller.kubernetes.io/pod-deletion-cost",
            "note",
        )
    ),
    st.sampled_from(("", "0", "1", "NaN", "1e999", "true", "-2147483648", "☃\u202e", "{}", "off")),
    max_size=2,
)
_LABELS = _one_of(
    {"app": _APPS, "pod-template-hash": "h", _LONG_KEY: _LONGEST},
    {"app": _APPS},
    st.sampled_from(({}, {"app": ""}, {"kubedsm.io/migrating": "h"}, {"kubedsm.io/tier": "edge"})),
)


@st.composite
def pod_specs(draw):
    chosen = draw(st.sets(st.sampled_from(sorted(_SPECS)), max_size=3))
    containers = draw(_containers("c", 1, 2) | _HUNDRED)
    return {
        "schedulerName": draw(st.sampled_from(("kubedsm", "kubedsm", "kubedsm", "default"))),
        "containers": containers,
        **{field: draw(_SPECS[field]) for field in sorted(chosen)},
    }


@st.composite
def nodes(draw, name):
    """Draw a Node; some carry edge or cloud labels."""
    amounts = {resource: draw(_AMOUNTS) for resource in RESOURCES}
    labels = {
        "kubernetes.io/hostname": name,
        "generation": draw(st.sampled_from(("1", "x", "9" * 63))),
        "topology.kubernetes.io/zone": draw(st.sampled_from(("x", "y"))),
        "kubedsm.io/tier": name if name in ("edge", "cloud") else draw(_TIERS),
    }
    for missing in draw(st.sets(st.sampled_from(sorted(labels)[:3]), max_size=1)):
        del labels[missing]
    absurd = name not in ("edge", "cloud") and draw(st.booleans())
    ordinary = {} if absurd else {"cpu": "4", "memory": "8Gi"}
    pods = draw(st.sampled_from(("110", "110", "1", "0", "9223372036854775807")))
    reported = {"allocatable": {**amounts, **ordinary, "pods": pods}}
    unusual = draw(st.sampled_from((*[reported] * 8, {"allocatable": {}}, {})))
    taints = draw(st.lists(_TAINTS, max_size=2))
    return {
        "metadata": {"name": name, "labels": draw(st.sampled_from((labels, labels, {})))},
        "spec": {
            "taints": taints + taints[:1],
            "unschedulable": draw(st.sampled_from((False, False, True))),
        }
        if absurd
        else {},
        "status": unusual if absurd else reported,
    }


@st.composite
def pods(draw, name, owners=()):
    return {
        "metadata": {
            **name,
            "labels": draw(_LABELS),
            "annotations": draw(_ANNOTATIONS),
            "ownerReferences": list(owners),
        },
        "spec": draw(pod_specs()),
    }


@st.composite
def _known_pods(draw, number, places):
    """Draw a Pod as a watch shows it: with server and kubelet fields, and possibly a node."""
    place = draw(st.sampled_from((None, None, *places[:1], *places)))
    app = draw(_APPS)
    owner = {"kind": "ReplicaSet", "name": f"{app}-h", "uid": app, "controller": True}
    name = {"name": f"{app}-{number}", "namespace": draw(st.sampled_from(("shop", "other")))}
    pod = draw(pods(name, (owner,)))
    pod["metadata"] |= {
        "uid": f"p{number}",
        "resourceVersion": "1",
        "creationTimestamp": draw(st.sampled_from(_AGES)),
    }
    pod["spec"]["priority"] = draw(st.sampled_from((0, 0, -(2**31), 10**9, _INT32)))
    if place:
        pod["spec"]["nodeName"] = place
        pod["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    return decoding.pod(pod)


@st.composite
def snapshots(draw):
    mirror = ClusterMirror()
    names = ["cloud", "edge", "other", "more"][: draw(st.integers(0, 4))]
    for name in names:
        mirror.apply(NodeApplied(decoding.node(draw(nodes(name)))))
    for number in range(draw(st.integers(1, 8))):
        mirror.apply(PodApplied(draw(_known_pods(number, names))))
    return mirror.snapshot()


objectives = st.builds(
    Objective,
    kind=st.sampled_from(("share", "latency", "ecmus")),
    gamma=st.sampled_from((0.0, 1000.0)),
    tier_gap=st.sampled_from((1e-9, 0.06, 1000.0)),
)
qos_targets = st.builds(
    QosTarget,
    qos=st.sampled_from((0.0, 1e-12, 0.5, 1.0)),
    weight=st.sampled_from((0.0, 1e-9, 1.0, 1000.0)),
)
