"""The configuration: defaults, what is refused and in which words, and the way back to text."""

import io
import json
import sys

import attrs
import pytest

from kubedsm.config.documents import DocumentError
from kubedsm.config.sections import (
    BatchSettings,
    EdgeSettings,
    Latency,
    MigrationSettings,
    ObjectiveSettings,
    SuggesterSettings,
)
from kubedsm.config.services import Service
from kubedsm.config.settings import Configuration, dump, load, load_file
from kubedsm.model.model import Tier, Tiers, Workload
from support.placement_instances import asking, node, snapshot

FULL = """
apiVersion: kubedsm.io/v1alpha1
kind: KubeDSMConfiguration
schedulerName: kubedsm
tiers: {label: kubedsm.io/tier, edge: [edge], cloud: [cloud]}
batch: {idle: 5ms, max: 200ms, size: 256, budget: 1500ms}
suggester: {mode: apply, algorithm: exact, period: 3s, budget: 10s, maxMoves: 6, maxCloudToEdge: 5,
            maxEdgeReorder: 3, defragment: false}
optimiser: {trigger: stuck, delay: 2s, budget: 60s, tierShare: .6, allowEvictions: false}
migration: {mode: surge, maxConcurrent: 3, maxPerNode: 3, maxPerWorkload: 3, price: 17s,
            cooldown: 0s, drainDelay: 2s, deadline: 60s}
objective: {kind: share, alpha: 1, beta: 0.1, gamma: 0}
fragmentation: unusable
services:
  "*": {qos: 1.0, weight: 1}
  shop/cart: {qos: 0.5}
  shop/video: {latencyTarget: 40ms}
fairness: {perNamespace: true, namespaces: {}}
latency: {edge: 20ms, cloud: 80ms}
"""


def workload(name, namespace="shop"):
    return Workload(namespace, "ReplicaSet", name)


def refusal(text):
    with pytest.raises(DocumentError) as refused:
        load(text, "config.yaml")
    message = str(refused.value)
    assert len(message.splitlines()) == 1
    assert len(message) < 400
    return message


@pytest.mark.parametrize(
    "text", ["", "\n", "# nothing\n", "---\n", "{}", "null", b"", b"\xef\xbb\xbf"]
)
def test_an_empty_document_means_the_defaults(text):
    assert load(text, "config.yaml") == Configuration()


def test_the_full_form_spells_out_the_defaults():
    given = load(FULL, "config.yaml")
    assert given.tiers == Tiers(("kubedsm.io/tier",))
    assert attrs.evolve(given, tiers=Tiers(), services=Configuration().services) == Configuration()
    assert given.batch == BatchSettings(idle=0.005, max=0.2, size=256, budget=1.5)
    assert given.suggester == SuggesterSettings(
        "apply", "exact", 3.0, 10.0, 6, 5, 3, defragment=False
    )
    assert given.migration == MigrationSettings("surge", 3, 3, 3, 17.0, 0.0, 2.0, 60.0)
    assert given.objective == ObjectiveSettings("share", 1.0, 0.1, 0.0)
    assert given.latency == Latency(0.02, 0.08)
    assert given.services == {
        "*": Service(qos=1.0, weight=1.0),
        "shop/cart": Service(qos=0.5),
        "shop/video": Service(latency_target=0.04),
    }


def test_null_json_bare_words_lists_and_durations_are_read_as_they_are_meant():
    given = load("batch:\nsuggester: {maxMoves: 2, period: }\nservices: {shop/cart: }\n", "x")
    assert given.batch == BatchSettings()
    assert given.suggester == SuggesterSettings(max_moves=2)
    assert given.services == {"shop/cart": Service()}
    text = json.dumps({"suggester": {"mode": "off"}, "objective": {"beta": 1e-7, "gamma": 1e2}})
    given = load(text, "config.json")
    assert given.suggester == SuggesterSettings(mode="off")
    assert (given.objective.beta, given.objective.gamma) == (1e-7, 100)
    assert load("suggester: {mode: off}", "x").suggester.mode == "off"
    assert load("", "x").packing_mode == "apply"
    assert load("suggester: {mode: suggest}", "x").packing_mode == "suggest"
    assert load("{suggester: {mode: off}, optimiser: {mode: apply}}", "x").packing_mode == "apply"
    assert load("optimiser: {mode: off}", "x").packing_mode == "off"
    given = load("tiers: {label: [zone, tier], edge: near, cloud: [far, farther]}", "x")
    assert given.tiers == Tiers(
        ("zone", "tier"), frozenset({"near"}), frozenset({"far", "farther"})
    )
    given = load("migration: {deadline: 1m30s, cooldown: 0s, drainDelay: 500ms}", "x")
    assert given.migration == MigrationSettings(deadline=90.0, cooldown=0.0, drain_delay=0.5)


REFUSALS: dict[str | bytes, str] = {
    "services: {shop/cart: {qos: 1.5}}": "services.shop/cart.qos: 1.5 is not between 0 and 1",
    "services: {'*': {qos: .nan}}": "services.*.qos: nan is not between 0 and 1",
    "services: {shop/cart: {qos: half}}": (
        "services.shop/cart.qos: 'half' is not a number between 0 and 1"
    ),
    "services: {shop/cart: {qos: 1, latencyTarget: 1s}}": (
        "services.shop/cart.latencyTarget: qos says the same thing; only one of them may be given"
    ),
    "services: {shop/cart: {demand: {berlin: -1}}}": (
        "services.shop/cart.demand.berlin: -1 is not between 0 and 1000000"
    ),
    "services: {shop/cart: {demand: {berlin: 0}}}": (
        "services.shop/cart.demand: no site has a weight above 0; {} means one pool"
    ),
    "services: {shop/cart: {demand: {'a b': 1}}}": (
        "services.shop/cart.demand.a b: 'a b' is not a label value, such as edge"
    ),
    "services: {shop/cart: {resilience: {zone: 0.5}}}": (
        "services.shop/cart.resilience.zone: 'zone' is not site"
    ),
    "latency: {matrix: {berlin: {munich: -5ms}}}": (
        "latency.matrix.berlin.munich: '-5ms' is not a duration, such as 500ms, 10s or 1m30s"
    ),
    "services: {shop/cart: {mode: surged}}": (
        "services.shop/cart.mode: 'surged' is not surge, recreate or off; did you mean surge?"
    ),
    "services: {7: {qos: 1}}": (
        "services.7: '7' is not namespace/name, namespace/*, */name, Kind, namespace/Kind,"
        " label=value or *"
    ),
    "services: {a=b: {mode: 'off'}}": "services.a=b.mode: a label sets qos and weight only",
    "services: {shop/cart: {latencyTarget: 40ms}}\nlatency: {edge: 80ms, cloud: 80ms}": (
        "services.shop/cart.latencyTarget: needs latency.edge, 80ms, below latency.cloud, 80ms"
    ),
    "batch: {idel: 5ms}": "batch.idel: unknown key; did you mean idle?",
    "latency: {fog: 5ms}": (
        "latency.fog: unknown key; the keys here are edge, cloud, neighbour, matrix, queries"
    ),
    "batch: {idle: 5}": (
        "batch.idle: 5 is not a duration with its unit, such as 500ms, 10s or 1m30s"
    ),
    "batch: {max: 1ms}": "batch.max: 1ms is shorter than idle, 5ms",
    "batch: {size: 0}": "batch.size: 0 is not between 1 and 10000",
    "batch: {size: 1.5}": "batch.size: 1.5 is not a whole number between 1 and 10000",
    "batch: {size: 0x" + "f" * 6000 + "}": "batch.size: a huge number is not between 1 and 10000",
    "batch: 5ms": "batch: '5ms' is not a mapping of keys to values",
    "suggester: {period: 0s}": "suggester.period: 0s is not between 10ms and 24h",
    "suggester: {mode: on}": "suggester.mode: true is not apply, suggest or off; YAML reads a"
    " bare on or yes as true: quote it, such as 'off'",
    "suggester: {defragment: 1}": "suggester.defragment: 1 is not true or false",
    "objective: {beta: 1}": "objective.beta: 1 is not below alpha, 1",
    "fairness: {namespaces: {shop/cart: 2}}": (
        "fairness.namespaces.shop/cart: 'shop/cart' is not a namespace"
    ),
    "objective: {gamma: -" + "9" * 400 + "}": (
        "objective.gamma: a huge number is not a number between 0 and 1000"
    ),
    "edge: {headroom: 0.1}": "edge.headroom: 0.1 is not a percentage, such as 10%",
    "tiers: {edge: []}": "tiers.edge: the list is empty",
    "tiers: {edge: [a, a]}": "tiers.edge: 'a' occurs twice",
    "loadAware: {capacity: [{net: 1MB/s}, {net: 1MB/s}]}": (
        "loadAware.capacity: a mapping occurs twice"
    ),
    "latency: {matrix: {a: }}": "latency.matrix.a: null is not a mapping of keys to values",
    "edge: {headroom: 150%}": "edge.headroom: 150% is not between 0% and 100%",
    "tiers: {edge: cloud}": "tiers.cloud: 'cloud' is a value of the edge tier already",
    "schedulerName: Mine": (
        "schedulerName: 'Mine' is not a name of lower-case letters, digits, - and ."
    ),
    "apiVersion: kubedsm.io/v1": "apiVersion: 'kubedsm.io/v1' is not kubedsm.io/v1alpha1",
    "kind: Deployment": "kind: 'Deployment' is not KubeDSMConfiguration",
    "[]": "a list is not a mapping of keys to values",
    "batch: {size: 1}\nbatch: {size: 2}": "batch: given twice, line 2, column 1",
    "a: 1\n---\nb: 2": "another document begins, line 2, column 1; there must be one only",
    b"kind: \xff": "not UTF-8 text",
    "batch: {? [1, 2] : 3}": "batch: a key must be text, line 1, column 11",
    "<<: {kind: x}": "<<: 'tag:yaml.org,2002:merge' has no meaning here, line 1, column 1",
}


@pytest.mark.parametrize(("text", "message"), REFUSALS.items())
def test_what_is_refused_names_the_place_the_reason_and_what_is_allowed(text, message):
    assert refusal(text) == f"config.yaml: {message}"


def test_without_a_word_for_every_service_the_promise_is_the_whole_edge_share():
    given = load("services: {shop/cart: {weight: 2}}\nmigration: {mode: recreate}", "x")
    for name, weight in (("cart", 2), ("other", 1)):
        qos_target = given.qos_target(workload(name))
        assert (qos_target.qos, qos_target.weight) == (1, weight)
    assert given.migration_mode(workload("cart")) == "recreate"
    dumped = dump(Configuration())
    assert dumped.startswith("apiVersion: kubedsm.io/v1alpha1\nkind: KubeDSMConfiguration\n")
    assert "idle: 5ms" in dumped


@pytest.mark.parametrize(("target", "qos"), [("10ms", 1), ("20ms", 1), ("80ms", 0), ("1s", 0)])
def test_a_latency_target_is_clipped_to_a_share(target, qos):
    given = load(f"services: {{shop/cart: {{latencyTarget: {target}}}}}", "x")
    assert given.qos_target(workload("cart")).qos == qos


def test_a_file_is_read_and_one_that_cannot_be_is_named(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(FULL, encoding="utf-8")
    assert load_file(path) == load_file(str(path)) == load(FULL, "x")
    with pytest.raises(DocumentError) as refused:
        load_file(tmp_path / "absent.yaml")
    assert str(refused.value) == f"{tmp_path}/absent.yaml: No such file or directory"
    with pytest.raises(DocumentError, match="Is a directory"):
        load_file(tmp_path)


def test_the_objective_headroom_patience_spread_and_percentage_are_the_policys():
    objective = load("objective: {alpha: 2, beta: 0.5, gamma: 20}", "x").objective_function
    assert (objective.alpha, objective.beta, objective.gamma) == (2, 0.5, 20)
    given = attrs.evolve(Configuration(), edge=EdgeSettings(headroom=0.1))
    given = attrs.evolve(given, batch=BatchSettings(patience=90.0))
    assert given.policy.limits.headroom == 0.1
    assert given.policy.patience == 90.0
    assert Configuration().policy.cloud_percentage == 100
    assert load("cloud: {percentageOfNodes: 0}", "test").policy.cloud_percentage == 0
    assert Configuration().policy.default_spread
    assert not load("defaultSpread: false", "test").policy.default_spread
    given = load(FULL, "x")
    assert given.qos_target(workload("cart")) is given.qos_target(workload("cart"))
    assert given.policy is given.policy
    assert given.policy.objective is given.objective_function


def test_standard_input_is_read_once(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"batch: {size: 7}")))
    assert load_file("-").batch.size == 7
    with pytest.raises(DocumentError, match=r"^standard input: empty, or read for something else"):
        load_file("-")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"batch: {size: 0}")))
    with pytest.raises(DocumentError, match=r"^standard input: batch\.size: 0 is not between"):
        load_file("-")
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(DocumentError, match=r"^standard input: closed$"):
        load_file("-")


GIVEN = load(
    """
services:
  "*": {qos: 0.9, mode: recreate}
  "*/cart": {qos: 0.4, weight: 4}
  shop/*: {qos: 0.6, weight: 6}
  shop/cart: {weight: 8}
  shop/video: {latencyTarget: 50ms, mode: "off"}
latency: {edge: 20ms, cloud: 80ms}
""",
    "test",
)


@pytest.mark.parametrize(
    ("name", "qos", "weight", "mode"),
    [
        ("shop/cart", 0.6, 8, "recreate"),
        ("shop/video", 0.5, 6, "off"),
        ("shop/other", 0.6, 6, "recreate"),
        ("mall/cart", 0.4, 4, "recreate"),
        ("mall/other", 0.9, 1, "recreate"),
        ("shopping/other", 0.9, 1, "recreate"),
    ],
)
def test_each_thing_is_said_by_the_most_specific_entry(name, qos, weight, mode):
    namespace, _, name = name.partition("/")
    workload = Workload(namespace, "Deployment", name)
    qos_target = GIVEN.qos_target(workload)
    assert (qos_target.qos, qos_target.weight) == (pytest.approx(qos), weight)
    assert GIVEN.migration_mode(workload) == mode


KINDS = load(
    """
services:
  "*": {qos: 0.9, weight: 5}
  shop/*: {qos: 0.6}
  "*/nightly": {qos: 0.7}
  shop/CronJob: {qos: 0.5}
  StatefulSet: {qos: 0.8}
  Job: {weight: 2}
""",
    "test",
)


@pytest.mark.parametrize(
    ("name", "kind", "qos", "weight"),
    [
        ("mall/db", "StatefulSet", 0.8, 5),
        ("shop/db", "StatefulSet", 0.6, 5),
        ("shop/report", "CronJob", 0.5, 5),
        ("mall/report", "CronJob", 0.0, 5),
        ("mall/nightly", "CronJob", 0.7, 5),
        # Wildcards are for services.
        ("shop/etl", "Job", 0.0, 2),
        ("shop/alone", "Pod", 0.0, 5),
        ("shop/web", "Deployment", 0.6, 5),
        ("mall/custom", "Rollout", 0.9, 5),
    ],
)
def test_workloads_that_end_target_nothing_unless_named(name, kind, qos, weight):
    namespace, _, name = name.partition("/")
    qos_target = KINDS.qos_target(Workload(namespace, kind, name))
    assert (qos_target.qos, qos_target.weight) == (qos, weight)
    # none at the edge while the cloud has capacity
    assert (qos_target.most == 0) is (qos == 0)


LABELS = load(
    """
services:
  "*": {qos: 0.9, weight: 5}
  shop/*: {weight: 7}
  app.kubernetes.io/tier=gold: {qos: 0.5, weight: 9}
  tier=gold: {qos: 0.1}
  mall/web: {qos: 0.3}
""",
    "test",
)
GOLD = "app.kubernetes.io/tier"


@pytest.mark.parametrize(
    ("name", "labels", "qos", "weight"),
    [
        ("mall/api", {GOLD: "gold"}, 0.5, 9),
        ("mall/api", {GOLD: "silver"}, 0.9, 5),
        ("mall/api", {}, 0.9, 5),
        # A namespace precedes labels, which its tenants choose, and a workload's name does.
        ("shop/api", {GOLD: "gold"}, 0.5, 7),
        ("mall/web", {GOLD: "gold"}, 0.3, 9),
        ("mall/api", {"tier": "gold", GOLD: "gold"}, 0.5, 9),
        ("mall/api", {"tier": "gold"}, 0.1, 5),
    ],
)
def test_labels_of_the_newest_pod_set_target_and_weight(name, labels, qos, weight):
    namespace, _, name = name.partition("/")
    workload = Workload(namespace, "Deployment", name)
    old, new = (
        attrs.evolve(
            asking(uid, None, created=at), namespace=namespace, workload=workload, labels=said
        )
        for uid, at, said in (("old", 1.0, {GOLD: "bronze"}), ("new", 2.0, labels))
    )
    shot = snapshot([node("edge", Tier.EDGE, 4, 64)], [new, old])
    target = LABELS.policy.qos_targets_in(shot)(workload)
    assert (target.qos, target.weight) == (qos, weight)


def test_a_label_gives_a_job_a_target():
    job = Workload("mall", "Job", "etl")
    pod = attrs.evolve(asking("etl-1", None), workload=job, labels={GOLD: "gold"})
    shot = snapshot([node("edge", Tier.EDGE, 4, 64)], [pod])
    target = LABELS.policy.qos_targets_in(shot)(job)
    assert (target.qos, target.most) == (0.5, None)


def test_a_share_and_a_latency_target_are_one_thing():
    given = load("services: {'*': {latencyTarget: 80ms}, shop/*: {qos: 0.3}}", "test")
    assert given.qos_target(Workload("shop", "Deployment", "a")).qos == 0.3
    assert given.qos_target(Workload("mall", "Deployment", "a")).qos == 0
    for number in range(10_000):
        namespace, qos = ("shop", 0.6) if number % 2 else ("mall", 0.9)
        assert GIVEN.qos_target(Workload(namespace, "Deployment", f"w{number}")).qos == qos
