"""What preemption reads of pods and budgets, and what it asks of the Eviction API."""

import pytest

from kubedsm.kube.calls import reads, writes
from kubedsm.kube.calls.reads import PodEvent, events_about
from kubedsm.kube.wire import decoding
from kubedsm.kube.wire.errors import WireError
from kubedsm.model.selecting import Budget
from kubedsm.model.selectors import Requirement
from support.answering_cluster import POD, AnsweringCluster


def pod(annotations=None, **spec):
    metadata = {"name": "a", "namespace": "shop", "uid": "u", "annotations": annotations}
    return decoding.pod({"metadata": metadata, "spec": {"containers": [], **spec}})


async def test_whether_a_pod_preempts():
    assert pod().pod_class.preempts
    assert pod(preemptionPolicy="PreemptLowerPriority").pod_class.preempts
    assert not pod(preemptionPolicy="Never").pod_class.preempts
    assert pod().pod_class == pod(preemptionPolicy="PreemptLowerPriority").pod_class


@pytest.mark.parametrize(
    ("annotations", "pinned", "untouchable"),
    [
        (None, "", False),
        ({}, "", False),
        ({"kubedsm.io/do-not-disrupt": "false"}, "", False),
        ({"kubedsm.io/do-not-disrupt": "true"}, "it is annotated kubedsm.io/do-not-disrupt", True),
        ({"kubernetes.io/config.mirror": "x"}, "it is a static pod of its node", True),
    ],
)
async def test_whom_nobody_may_take(annotations, pinned, untouchable):
    given = pod(annotations)
    assert (given.pinned, given.untouchable) == (pinned, untouchable)


async def test_a_pod_with_files_on_its_node_is_not_moved_but_may_be_preempted():
    given = pod({"other": "x"}, volumes=[{"name": "v", "emptyDir": {}}])
    assert given.pinned
    assert not given.untouchable


def budget(name, selector, allowed=None):
    status = {} if allowed is None else {"status": {"disruptionsAllowed": allowed}}
    return {
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {} if selector is None else {"selector": selector},
        **status,
    }


async def test_budgets_are_read_with_whom_they_cover():
    expression = {"key": "tier", "operator": "NotIn", "values": ["x"]}
    items = [
        budget("a", {"matchLabels": {"app": "a"}, "matchExpressions": [expression]}, 2),
        budget("new", {"matchExpressions": [{"key": "app", "operator": "Exists"}]}),
        budget("empty", {}, 1),
        budget("none", None, 1),
    ]
    cluster = AnsweringCluster({"items": items})
    both = (Requirement("app", "In", ("a",)), Requirement("tier", "NotIn", ("x",)))
    assert await reads.list_budgets(cluster) == (
        Budget("shop", "a", both, allowed=2),
        Budget("shop", "new", (Requirement("app", "Exists"),)),
        Budget("shop", "empty", (), allowed=1),
        Budget("shop", "none", None, allowed=1),
    )
    assert cluster.asked[0].path == "/apis/policy/v1/poddisruptionbudgets"
    with pytest.raises(WireError):
        await reads.list_budgets(AnsweringCluster({"items": [{"metadata": 1}]}))


@pytest.mark.parametrize("dry_run", [False, True])
async def test_an_eviction_may_only_ask(dry_run):
    cluster = AnsweringCluster({"kind": "Status"}, 201)
    await writes.evict(cluster, POD, dry_run=dry_run)
    [request] = cluster.asked
    assert request.path.endswith("/pods/cart-1/eviction")
    options = request.body["deleteOptions"]
    assert options["preconditions"] == {"uid": "u1"}
    assert options.get("dryRun") == (["All"] if dry_run else None)


async def test_events_are_ours_and_in_their_order():
    items = [
        {"reason": "Migrated", "message": "Moved to e1", "eventTime": "2026-01-02T00:00:00Z",
         "reportingComponent": "kubedsm"},
        {"reason": "Pulled", "message": "no", "lastTimestamp": "2026-01-01T00:00:01Z"},
        {"reason": "Scheduled", "message": "to c1", "eventTime": "2026-01-01T00:00:00Z",
         "reportingComponent": "kubedsm"},
    ]  # fmt: skip
    cluster = AnsweringCluster({"items": items})
    assert await events_about(cluster, POD) == [
        PodEvent("2026-01-01T00:00:00Z", "Scheduled", "to c1"),
        PodEvent("2026-01-02T00:00:00Z", "Migrated", "Moved to e1"),
    ]
    assert cluster.asked[0].query == {"fieldSelector": "involvedObject.uid=u1"}
    with pytest.raises(WireError):
        await events_about(AnsweringCluster({"items": [1]}), POD)
