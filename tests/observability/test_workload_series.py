"""However many workloads there are, so many of them have series, of every namespace some."""

from kubedsm.model.model import Share, Workload
from kubedsm.objective.objective import QosTarget
from kubedsm.observability.gauges import MOST, choose_workloads, qos_gap, workload_families
from kubedsm.observability.instruments import Families, format_metrics
from support.metered import samples, total


def workloads(namespace, count):
    return {Workload(namespace, "Deployment", f"w{n:05}"): Share(0, 2) for n in range(count)}


def text_of(shares):
    return format_metrics(
        Families(tuple(workload_families(shares, lambda _: QosTarget())))
    ).decode()


def test_many_workloads_of_one_namespace_leave_room_for_others_and_count_in_sums():
    shares = workloads("greedy", 10 * MOST) | workloads("shop", 3) | workloads("zoo", 1)
    taken = choose_workloads(shares)
    assert len(taken) == MOST
    assert set(workloads("shop", 3)) | set(workloads("zoo", 1)) <= set(taken)
    assert choose_workloads(dict(reversed(shares.items()))) == taken
    shares = workloads("greedy", 2 * MOST)
    text = text_of(shares)
    assert len([s for s in samples(text) if s.name == "kubedsm_workload_qos_gap"]) == MOST
    assert total(text, "kubedsm_workloads") == 2 * MOST
    assert total(text, "kubedsm_workloads_below_promise") == 2 * MOST
    assert total(text, "kubedsm_workloads_without_series") == MOST


def test_odd_names_surpluses_and_no_workloads_make_no_odd_series():
    odd = {Workload("a", "Pod", 'x"} 1\nevil{a="\\'): Share(1, 1)}
    [series] = [s for s in samples(text_of(odd)) if s.name == "kubedsm_workload_pods"]
    assert series.labels["workload"] == 'x"} 1\nevil{a="\\'
    assert "\nevil" not in text_of(odd)
    assert qos_gap(Share(4, 4), 0.5) == 0
    assert qos_gap(Share(1, 4), 0.5) == 0.25
    assert total(text_of({}), "kubedsm_edge_share") == 0
