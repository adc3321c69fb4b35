"""Clusters made of objects with everything the API accepts, however absurd it is."""

from hypothesis import strategies as st

from kubedsm.cluster.wire import decoding
from kubedsm.core.goals.objective import Objective, Promise
from kubedsm.core.world.events import NodeApplied, PodApplied
from kubedsm.core.world.mirror import ClusterMirror

_ORDINARY = ("0", "1m", "250m", "1", "2", "64Mi", "1Gi", "3e3", "0.0001")
_ABSURD = ("1n", "100T", "1E", "1e20", "9223372036854775807", "1Ei", "7Ei", "1Pi", "12E")
_AMOUNTS = st.sampled_from(_ORDINARY * 2 + _ABSURD)
_RESOURCES = ("cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "example.com/gpu")
_REQUESTS = st.one_of(
    st.just({"cpu": "250m", "memory": "64Mi"}),
    st.dictionaries(st.sampled_from(_RESOURCES), _AMOUNTS, max_size=3),
)
_INT32 = 2**31 - 1
_AGES = ("0001-01-01T00:00:00Z", "2026-01-01T00:00:00Z", "9999-12-31T23:59:59Z")
_TIERS = st.sampled_from(("edge", "cloud", "none"))
_APPS = st.sampled_from(("a", "b", "c"))
_KEYS = st.sampled_from(("kubernetes.io/hostname", "topology.kubernetes.io/zone", "k" * 63))
_SELECTORS = st.one_of(
    st.none(),
    st.just({}),
    st.builds(lambda app: {"matchLabels": {"app": app}}, _APPS),
    st.just({"matchExpressions": [{"key": "app", "operator": "Exists"}]}),
)
_TERMS = st.builds(
    lambda key, selector: {"topologyKey": key, "labelSelector": selector}, _KEYS, _SELECTORS
)
_WEIGHTED = st.builds(
    lambda weight, term: {"weight": weight, "podAffinityTerm": term},
    st.sampled_from((1, 100)),
    _TERMS,
)
_GENERATIONS = st.builds(
    lambda operator, bound: {
        "matchExpressions": [{"key": "generation", "operator": operator, "values": [bound]}]
    },
    st.sampled_from(("Gt", "Lt", "In")),
    st.sampled_from(("0", "-5", "9" * 18)),
)


def _one_or_none(values):
    return st.lists(values, max_size=1)


_AFFINITIES = st.builds(
    lambda near, apart, liked, disliked, generation: {
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
                {"weight": 100, "preference": term} for term in generation
            ]
        },
    },
    *map(_one_or_none, (_TERMS, _TERMS, _WEIGHTED, _WEIGHTED, _GENERATIONS)),
)
_SPREADS = st.builds(
    lambda key, skew, least, demanded, selector: {
        "topologyKey": key,
        "maxSkew": skew,
        "whenUnsatisfiable": "DoNotSchedule" if demanded else "ScheduleAnyway",
        "labelSelector": selector,
        **({"minDomains": least} if demanded and least else {}),
    },
    _KEYS,
    st.sampled_from((1, 2, _INT32)),
    st.sampled_from((None, 1, _INT32)),
    st.booleans(),
    _SELECTORS,
)


@st.composite
def nodes(draw, name):
    amounts = {resource: draw(_AMOUNTS) for resource in _RESOURCES}
    labels = {
        "kubernetes.io/hostname": name,
        "generation": draw(st.sampled_from(("1", "x", "9" * 63))),
        "topology.kubernetes.io/zone": draw(st.sampled_from(("x", "y"))),
        "kubedsm.io/tier": name if name in ("edge", "cloud") else draw(_TIERS),
    }
    absurd = name not in ("edge", "cloud") and draw(st.booleans())
    ordinary = {} if absurd else {"cpu": "4", "memory": "8Gi"}
    pods = draw(st.sampled_from(("110", "110", "1", "0", "9223372036854775807")))
    return decoding.node(
        {
            "metadata": {"name": name, "uid": name, "labels": labels},
            "spec": {},
            "status": {"allocatable": {**amounts, **ordinary, "pods": pods}},
        }
    )


@st.composite
def pods(draw, number, places):
    app = draw(_APPS)
    place = draw(st.sampled_from((None, None, *places[:1], *places)))
    ruled = draw(st.sampled_from((False, False, False, True)))
    owner = {"kind": "ReplicaSet", "name": f"{app}-h", "uid": app, "controller": True}
    condition = {"type": "Ready", "status": "True"}
    return decoding.pod(
        {
            "metadata": {
                "name": f"{app}-{number}",
                "namespace": draw(st.sampled_from(("shop", "other"))),
                "uid": f"p{number}",
                "resourceVersion": "1",
                "creationTimestamp": draw(st.sampled_from(_AGES)),
                "labels": {"app": app, "pod-template-hash": "h", "l" * 63: "v" * 63},
                "annotations": {"note": "x" * draw(st.sampled_from((0, 250_000)))},
                "ownerReferences": [owner],
            },
            "spec": {
                "schedulerName": draw(st.sampled_from(("kubedsm", "kubedsm", "default"))),
                "priority": draw(st.sampled_from((0, 0, -(2**31), 10**9, _INT32))),
                "terminationGracePeriodSeconds": draw(st.sampled_from((0, 30, 2**63 - 1))),
                "containers": [
                    {"name": f"c{at}", "resources": {"requests": requests}}
                    for at, requests in enumerate(draw(st.lists(_REQUESTS, max_size=2)))
                ],
                "affinity": draw(_AFFINITIES) if ruled else None,
                "topologySpreadConstraints": draw(st.lists(_SPREADS, max_size=2)) if ruled else [],
                **({"nodeName": place} if place else {}),
            },
            "status": {"phase": "Running", "conditions": [condition]} if place else {},
        }
    )


@st.composite
def snapshots(draw):
    mirror = ClusterMirror()
    names = ["cloud", "edge", "other", "more"][: draw(st.integers(0, 4))]
    for name in names:
        mirror.apply(NodeApplied(draw(nodes(name))))
    for number in range(draw(st.integers(1, 8))):
        mirror.apply(PodApplied(draw(pods(number, names))))
    return mirror.snapshot()


objectives = st.builds(
    Objective,
    kind=st.sampled_from(("share", "latency", "ecmus")),
    gamma=st.sampled_from((0.0, 1000.0)),
    tier_gap=st.sampled_from((1e-9, 0.06, 1000.0)),
)
promises = st.builds(
    Promise,
    qos=st.sampled_from((0.0, 1e-12, 0.5, 1.0)),
    weight=st.sampled_from((0.0, 1e-9, 1.0, 1000.0)),
)
