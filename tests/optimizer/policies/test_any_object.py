"""Whatever the API accepts is decided on: what no node can hold waits, and only that."""

import attrs
from hypothesis import given
from hypothesis import strategies as st

from kubedsm.model.model import MOST_OF_A_NODE, NodeName, Resources, Tier
from kubedsm.objective.fragmentation import Measure, request_mix
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.optimizer.moving.suggestion import SuggestLimits
from kubedsm.optimizer.policies.kubedsm import KubeDSM
from kubedsm.plugins.fit import unschedulable_message
from support.any_objects import objectives, qos_targets, snapshots
from support.drawing import examples
from support.placement_instances import GPU, node, pod, resources, snapshot

NODES = [node("e1", Tier.EDGE), node("e2", Tier.EDGE), node("c", Tier.CLOUD, 64, 64)]
POLICY = KubeDSM(lambda _: QosTarget(), Objective())


@examples(35)
@given(
    snapshots(),
    qos_targets,
    objectives,
    st.sampled_from(("exact", "paper")),
    st.sampled_from(Measure),
    st.sampled_from((0, 1, 6, 20)),
)
def test_every_object_that_the_api_accepts_is_decided_on(
    drawn, qos_target, objective, algorithm, measure, most
):
    limits = SuggestLimits(most, most, most, defragment=True)
    policy = KubeDSM(lambda _: qos_target, objective, limits, algorithm, measure)
    waiting = drawn.schedulable(drawn.pods.values())
    decision = policy.decide_batch(drawn, waiting)
    placed = {binding.pod.uid for binding in decision.bindings}
    assert placed | decision.unplaced.keys() == {pod.uid for pod in waiting}
    policy.suggest(drawn, lambda _: "")


def on_cloud(waiting):
    return attrs.evolve(waiting, node_name=NodeName("c"), phase="Running", ready=True)


def test_what_no_node_can_hold_is_set_aside_and_told():
    for amount in (MOST_OF_A_NODE + 1, 10**17, 10**18, 2**60, 2**63 - 1, 2**64):
        for asked in (Resources(cpu=amount), Resources(memory=amount), Resources.of({GPU: amount})):
            absurd = pod("absurd", "absurd", asked, priority=10)
            waiting = [pod(f"b-{i}", "b", resources(1, 1)) for i in range(3)]
            running = [
                attrs.evolve(
                    pod(f"a-{i}", "a", resources(2, 1), on="c"), phase="Running", ready=True
                )
                for i in range(3)
            ]
            there = snapshot(NODES, [*running, *waiting, absurd])
            gone = snapshot(NODES, [*running, *waiting])
            decision = POLICY.decide_batch(there, [absurd, *waiting])
            without = POLICY.decide_batch(gone, waiting)
            assert decision.bindings == without.bindings
            assert request_mix(there) == request_mix(gone)
            message = unschedulable_message(decision.unplaced[absurd.uid])
            [name] = [name for name, n in asked.items() if n]
            assert message == f"0/3 nodes are available: 3 Insufficient {name}."
            moves = POLICY.suggest(there, lambda _: "").moves
            assert moves
            assert moves == POLICY.suggest(gone, lambda _: "").moves


def test_a_running_pod_that_no_node_could_hold_is_left_where_it_is():
    asked = Resources(cpu=10**17)
    absurd = on_cloud(pod("a-0", "a", asked))
    suggestion = POLICY.suggest(snapshot(NODES, [absurd]), lambda _: "")
    assert [r.reason for r in suggestion.rejected] == ["it requests more than any node has"]
