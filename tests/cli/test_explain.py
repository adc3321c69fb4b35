"""`kubedsm explain --from`: every node, and why."""

import copy
import json

import pytest
import yaml
from click.testing import CliRunner

from kubedsm.cli.main import commands
from support.dumps import node


def pod(name, cpu="1", namespace="shop", on=None, **spec):
    return {
        "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name, "labels": spec.pop("labels", {})},
        "spec": {
            "schedulerName": spec.pop("scheduler", "kubedsm"),
            "nodeName": on,
            "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}],
            **spec,
        },
    }


def owned(replica, name="a"):
    """Return the pod as one of a StatefulSet: pods without a controller target nothing."""
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name, "uid": "1"}
    replica["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    return replica


@pytest.fixture
def explain(tmp_path):
    def run(*arguments, items):
        dump = tmp_path / "dump.json"
        dump.write_text(json.dumps({"kind": "List", "items": items}))
        return CliRunner().invoke(commands, ["explain", "--from", str(dump), *arguments])

    return run


def explained(explain, *arguments, items):
    result = explain(*arguments, "-o", "json", items=items)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_scores_choice_and_what_would_help(explain):
    taint = {"key": "dedicated", "value": "ml", "effect": "NoSchedule"}
    items = [
        node("e1", cpu="2"),
        node("e2", taints=[taint]),
        node("c1", "cloud", cpu="10"),
        node("c2", "cloud", cpu="20"),
        node("full"),
        node("small", cpu="500m"),
        pod("b", cpu="3500m", on="full"),
        owned(pod("a")),
    ]
    (said,) = explained(explain, "a", items=items)
    by_name = {n["node"]: n for n in said["nodes"]}
    assert (said["pod"], said["chosen"], said["bound"]) == ("shop/a", "e1", False)
    assert by_name["e1"]["score"] == pytest.approx(1)  # the whole share, alpha
    assert by_name["e1"]["fragmentation"] is not None
    assert (by_name["c1"]["score"], by_name["c2"]["score"]) == (0, 0)
    assert by_name["c1"]["leastAllocated"] < by_name["c2"]["leastAllocated"]
    assert by_name["e2"]["rule"] == "TaintToleration"
    assert by_name["e2"]["reasons"] == ["node(s) had untolerated taint {dedicated: ml}"]
    assert by_name["small"]["change"] == "use a larger node, or request at most 500m cpu"
    assert by_name["full"]["change"] == "free 500m cpu on the node"
    assert by_name["full"]["score"] is None


def test_preferences_then_replicas_decide_where_qos_does_not(explain, tmp_path):
    prefers = {"key": "disk", "operator": "In", "values": ["ssd"]}
    term = {"weight": 10, "preference": {"matchExpressions": [prefers]}}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    items = [
        node("e1"),
        node("e2", labels={"disk": "ssd"}),
        node("c1", "cloud", labels={"disk": "ssd"}),
        owned(pod("a", affinity=affinity)),
    ]
    (said,) = explained(explain, "a", items=items)
    assert said["chosen"] == "e2"
    assert {n["node"]: n["penalty"] for n in said["nodes"]} == {"e1": 200, "e2": 0, "c1": 0}
    assert "200 less preferred" in explain("a", items=items).output
    items = [node("e1"), node("e2"), owned(pod("a-0", on="e1")), owned(pod("a-1"))]
    (said,) = explained(explain, "a-1", items=items)
    assert {n["node"]: n["company"] for n in said["nodes"]} == {"e1": 1, "e2": 0}
    assert said["chosen"] == "e2"
    assert "joins 1 of its replicas" in explain("a-1", items=items).output
    config = tmp_path / "config.yaml"
    config.write_text("{defaultSpread: false, fragmentation: product}")
    (said,) = explained(explain, "a-1", "--config", str(config), items=items)
    assert {n["company"] for n in said["nodes"]} == {None}


def test_a_node_of_no_tier_is_chosen_only_where_there_is_no_tier(explain):
    (said,) = explained(explain, "a", items=[node("n1", None), node("c1", "cloud"), pod("a")])
    cloud, tierless = said["nodes"]
    assert said["chosen"] == "c1"
    assert (tierless["feasible"], tierless["reasons"]) == (True, [])
    assert tierless["tierRule"] == "node(s) had no label that makes them edge or cloud"
    assert tierless["score"] is None
    assert cloud["tierRule"] is None
    items = [node("n1", None), node("c1", "cloud", cpu="0"), pod("a")]
    (said,) = explained(explain, "a", items=items)
    assert said["chosen"] is None
    assert said["message"] == (
        "0/2 nodes are available: 1 Insufficient cpu,"
        " 1 node(s) had no label that makes them edge or cloud."
    )
    items = [node("n1", None), node("n2", None, cpu="8"), pod("a")]
    result = explain("a", "-o", "json", items=items)
    said = json.loads(result.stdout)
    assert said["chosen"] == "n2"
    assert [n["tierRule"] for n in said["nodes"]] == [None, None]
    assert "verdicts are by kube-scheduler's rules alone" in result.stderr


def test_a_bound_pod_is_explained_as_if_it_came_anew(explain):
    host = "kubernetes.io/hostname"
    term = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": host}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    rules = {"affinity": affinity, "labels": {"app": "a"}}
    items = [
        node("n1", cpu="1", labels={host: "n1"}),
        node("n2", labels={host: "n2"}),
        pod("a", on="n1", scheduler="another", **copy.deepcopy(rules)),
        pod("b", on="n2", **rules),
    ]
    (said,) = explained(explain, "shop/a", items=items)
    assert (said["chosen"], said["bound"]) == ("n1", True)
    assert [n["feasible"] for n in said["nodes"]] == [True, False]
    assert said["nodes"][1]["rule"] == "InterPodAffinity"


def test_all_pending_pods_each_as_if_alone(explain):
    items = [node("e1", cpu="1"), pod("a"), pod("b", scheduler="another"), pod("c", on="e1")]
    said = explained(explain, "--all", items=[*items[:3]])
    assert [(e["pod"], e["chosen"]) for e in said] == [("shop/a", "e1"), ("shop/b", None)]
    assert [e["pod"] for e in explained(explain, "--all", items=items)] == ["shop/a", "shop/b"]
    gated = pod("g", schedulingGates=[{"name": "hold"}])
    (said,) = explained(explain, "--all", items=[node("e1"), gated])
    assert said["nodes"][0]["reasons"] == ["waiting for scheduling gates: [hold]"]
    assert said["message"] == "0/1 nodes are available: waiting for scheduling gates: [hold]."


def test_pending_pods_of_a_namespace_and_names_for_the_next_command(explain):
    items = [node("e1"), pod("a"), pod("b", namespace="other")]
    assert [e["pod"] for e in explained(explain, "--all", "-A", items=items)] == [
        "other/b",
        "shop/a",
    ]
    assert [e["pod"] for e in explained(explain, "--all", "-n", "other", items=items)] == [
        "other/b"
    ]
    named = explain("--all", "-o", "name", items=items)
    assert named.stdout == "pod/other/b\npod/shop/a\n"
    assert explain("deploy/a", "-n", "shop", "-o", "name", items=items).stdout == ""
    assert explain("shop/a", "-o", "name", items=items).stdout == "pod/shop/a\n"
    documents = [*yaml.safe_load_all(explain("--all", "-o", "yaml", items=items).stdout)]
    assert [each["pod"] for each in documents] == ["other/b", "shop/a"]
    none = explain("--all", "-n", "third", items=items)
    assert none.stdout == "No pod in namespace third waits for a node.\n"


def test_a_pod_of_another_scheduler_is_never_put_anywhere_and_told_how_to_opt_in(explain):
    web = pod("web-7f-x", scheduler="default-scheduler", labels={"pod-template-hash": "7f"})
    owner = {"kind": "ReplicaSet", "name": "web-7f", "uid": "1", "controller": True}
    web["metadata"]["ownerReferences"] = [{"apiVersion": "apps/v1", **owner}]
    bare = pod("bare", scheduler="default-scheduler", on="e1")
    items = [node("e1"), node("n2", None), web, bare]
    (said,) = explained(explain, "web-7f-x", items=items)
    assert (said["chosen"], said["bound"], said["leftTo"]) == (None, False, "default-scheduler")
    assert {(n["feasible"], n["score"], n["tierRule"]) for n in said["nodes"]} == {
        (True, None, None)
    }
    shown = explain("web-7f-x", items=items).stdout
    assert "would be scheduled" not in shown
    assert "its schedulerName is default-scheduler" in shown
    assert "spec.template.spec.schedulerName: kubedsm in Deployment shop/web" in shown
    shown = explain("bare", items=items).stdout
    assert "shop/bare is on e1: its schedulerName is default-scheduler" in shown
    assert "recreate the pod with spec.schedulerName: kubedsm" in shown
    assert "opt in" not in explain("a", items=[node("e1"), pod("a")]).stdout


def test_the_table_says_it_too(explain):
    result = explain("a", items=[node("e1", cpu="500m"), node("c1", "cloud"), pod("a")])
    assert "NodeResourcesFit: Insufficient cpu" in result.stdout
    assert "It would be scheduled to c1 now." in result.stdout
    result = explain("a", items=[node("e1", cpu="500m"), pod("a")])
    assert "0/1 nodes are available: 1 Insufficient cpu." in result.stdout
    there = [node("e1"), pod("a", on="e1")]
    assert "shop/a is on e1, an edge node." in explain("a", items=there).stdout
    assert explain("--all", items=there).stdout == "No pod waits for a node.\n"
    assert explain("--all", "-o", "json", items=there).stdout == ""
    unwanted = pod("web", spec=None, nodeSelector={"a": "b"})
    output = explain("web", items=[node("e1"), node("e2"), unwanted]).output
    assert "NodeAffinity rejects 2 nodes." in output
    assert "2: e1, e2" in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a", "-l", "app=cart"), "-l: only with --all"),
        (("--all", "-l", "app=cart"), "-l and --from: only one of them, the API server selects"),
        (
            ("foo/x",),
            "there is no pod foo/x, foo is not a known kind; `kubectl get pods -A` lists them",
        ),
        (("foo", "x"), "foo x cannot be explained: name POD"),
        (("node/a/b",), "node/a/b cannot be explained"),
        (("web",), "there is no pod web; did you mean statefulset/other/web or statefulset/shop/"),
        (("twice",), "several pods are called twice: other/twice, shop/twice"),
        (("odd",), "pod odd cannot be read: Pod shop/odd: spec.affinity"),
    ],
)
def test_what_cannot_be_explained(explain, arguments, message):
    items = [node("e1"), pod("a"), pod("twice"), pod("twice", namespace="other")]
    items += [owned(pod("web-0", namespace=space), "web") for space in ("shop", "other")]
    result = explain(*arguments, items=[*items, pod("odd", affinity=[])])
    assert result.exit_code != 0
    assert message in result.output
    assert result.stdout == ""


def test_what_is_missing_is_assumed_and_said(explain):
    claim = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
    selector = {"matchLabels": {"team": "x"}}
    near = {"topologyKey": "zone", "labelSelector": {}, "namespaceSelector": selector}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [near]}
    asking = pod("a", volumes=[claim], affinity={"podAntiAffinity": required})
    said = explain("a", "-o", "json", items=[node("e1"), asking])
    assert "no PersistentVolumeClaim in" in said.stderr
    assert "no Namespace in" in said.stderr
    assert json.loads(said.stdout)["chosen"] == "e1"
    items = [node("e1"), asking, {"kind": "PersistentVolumeClaim", "metadata": {"name": "other"}}]
    said = explain("a", "-o", "json", items=items)
    assert "no PersistentVolume in" in said.stderr
    reason = json.loads(said.stdout)["nodes"][0]["reasons"]
    assert reason == ['persistentvolumeclaim "data" not found']
    assert explain("a", items=[node("e1"), pod("a")]).stderr == ""
