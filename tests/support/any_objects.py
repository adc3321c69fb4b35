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
_OPERATORS = st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist"))


def _expression(key, operator, values):
    named = {"values": values} if operator in ("In", "NotIn") else {}
    return {"key": key, "operator": operator, **named}


_SELECTORS = st.one_of(
    st.none(),
    st.just({}),
    st.builds(lambda app: {"matchLabels": {"app": app}}, _APPS),
    st.builds(
        lambda operator, values: {"matchExpressions": [_expression("app", operator, values)]},
        _OPERATORS,
        st.lists(_APPS, min_size=1, max_size=3),
    ),
)
_LABEL_KEYS = st.lists(st.sampled_from(("app", "pod-template-hash", "missing")), max_size=2)
_TERMS = st.builds(
    lambda key, selector, more: {"topologyKey": key, "labelSelector": selector, **more},
    _KEYS,
    _SELECTORS,
    st.sampled_from(
        (
            {},
            {"namespaces": ["shop", "nowhere"]},
            {"namespaceSelector": {"matchLabels": {"team": "a"}}},
            {"matchLabelKeys": ["app"]},
            {"mismatchLabelKeys": ["missing"]},
        )
    ),
)
_WEIGHTED = st.builds(
    lambda weight, term: {"weight": weight, "podAffinityTerm": term},
    st.sampled_from((1, 100)),
    _TERMS,
)
_NODE_TERMS = st.one_of(
    st.builds(
        lambda operator, bound: {
            "matchExpressions": [{"key": "generation", "operator": operator, "values": [bound]}]
        },
        st.sampled_from(("Gt", "Lt", "In", "NotIn")),
        st.sampled_from(("0", "-5", "9" * 18)),
    ),
    st.builds(
        lambda operator: {"matchExpressions": [_expression(_LONG_KEY, operator, [""])]},
        _OPERATORS,
    ),
    st.builds(
        lambda operator: {
            "matchFields": [{"key": "metadata.name", "operator": operator, "values": ["edge"]}]
        },
        st.sampled_from(("In", "NotIn")),
    ),
    st.just({}),
)


def _one_or_none(values):
    return st.lists(values, max_size=1)


_AFFINITIES = st.builds(
    lambda near, apart, liked, disliked, demanded, preferred: {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": near,
            "preferredDuringSchedulingIgnoredDuringExecution": liked,
        },
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": apart,
            "preferredDuringSchedulingIgnoredDuringExecution": disliked,
        },
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 100, "preference": term} for term in preferred
            ],
            **(
                {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": demanded}}
                if demanded
                else {}
            ),
        },
    },
    *map(_one_or_none, (_TERMS, _TERMS, _WEIGHTED, _WEIGHTED, _NODE_TERMS, _NODE_TERMS)),
)
_SPREADS = st.builds(
    lambda key, skew, least, demanded, selector, label_keys, policies: {
        "topologyKey": key,
        "maxSkew": skew,
        "whenUnsatisfiable": "DoNotSchedule" if demanded else "ScheduleAnyway",
        "labelSelector": selector,
        **({"minDomains": least} if demanded and least else {}),
        **({"matchLabelKeys": label_keys} if label_keys else {}),
        **policies,
    },
    _KEYS,
    st.sampled_from((1, 2, _INT32)),
    st.sampled_from((None, 1, _INT32)),
    st.booleans(),
    _SELECTORS,
    _LABEL_KEYS,
    st.sampled_from(
        (
            {},
            {"nodeAffinityPolicy": "Honor", "nodeTaintsPolicy": "Ignore"},
            {"nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor"},
        )
    ),
)
_TOLERATIONS = st.sampled_from(
    (
        {"operator": "Exists"},
        {"key": "odd", "operator": "Equal", "value": "", "effect": "NoSchedule"},
        {"key": "odd", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0},
        {"key": "odd", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": -1},
    )
)
_TAINTS = st.builds(
    lambda key, value, effect: {"key": key, "value": value, "effect": effect},
    st.sampled_from(("odd", _LONG_KEY)),
    st.sampled_from(("", _LONGEST)),
    st.sampled_from(("NoSchedule", "PreferNoSchedule", "NoExecute")),
)


def _containers(name, least=0, most=2, **more):
    return st.lists(_REQUESTS, min_size=least, max_size=most).map(
        lambda asked: [
            {"name": f"{name}{at}", "image": "x", "resources": {"requests": requests}, **more}
            for at, requests in enumerate(asked)
        ]
    )


#: of a pod's spec, beside what every pod has
_SPECS = {
    "terminationGracePeriodSeconds": st.sampled_from((0, 30, 2**63 - 1)),
    "initContainers": _containers("i") | _containers("s", restartPolicy="Always"),
    "overhead": st.sampled_from(({"cpu": "0"}, {"cpu": "1n", "memory": "7Ei"})),
    "resources": st.builds(lambda amounts: {"requests": amounts}, _REQUESTS),
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
_LABELS = st.one_of(
    st.builds(lambda app: {"app": app, "pod-template-hash": "h", _LONG_KEY: _LONGEST}, _APPS),
    st.builds(lambda app: {"app": app}, _APPS),
    st.sampled_from(({}, {"app": ""}, {"kubedsm.io/migrating": "h"}, {"kubedsm.io/tier": "edge"})),
)


@st.composite
def pod_specs(draw):
    chosen = draw(st.sets(st.sampled_from(sorted(_SPECS)), max_size=3))
    containers = draw(_containers("c", 1, 2) | st.just(100).map(_hundred))
    return {
        "schedulerName": draw(st.sampled_from(("kubedsm", "kubedsm", "kubedsm", "default"))),
        "containers": containers,
        **{field: draw(_SPECS[field]) for field in sorted(chosen)},
    }


def _hundred(number):
    return [{"name": f"c{at}", "image": "x"} for at in range(number)]


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
