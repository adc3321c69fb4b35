"""The lab's scripts on a cluster of one's own: a stand-in for kubectl, and an emulated cluster."""

import json
import subprocess
from pathlib import Path

import pytest

from support.kubectl import KUBECTL, Kubectl, needs_kubectl
from support.lab import LAB, lab, ok
from support.processes import Server

pytestmark = pytest.mark.http

TABLE = "shop-floor-1 edge - -\nhall-2 edge - -\ndc-7 cloud - -\n"
LABELLED = "shop-floor-1 edge\nhall-2 edge\ndc-7 cloud\n"


#: the real one, but for programs that do not run here, and monitoring, which has a DaemonSet
SOME_OF_KUBECTL = """case "$*" in
  *' port-forward '*) exec sleep 60 ;;
  *' get lease '*) echo kubedsm-1_8f2a ;;
  *' rollout '* | *' wait '*) ;;
  *' kustomize '*/monitoring) cat "${!#}/namespace.yaml" ;;
  *) exec "$KUBECTL" "$@" ;;
esac
"""


def own(path, table=TABLE, kubeconfig=None):
    """Return a lab on a cluster of one's own; without a table, its labels have the tiers."""
    there = lab(path, table or "")
    (path / "home").mkdir()
    kubeconfig = kubeconfig or path / "home" / "kubeconfig"
    kubeconfig.touch()
    (path / "labelled").write_text(LABELLED)
    there.env.update(LAB_KUBECONFIG=str(kubeconfig), LAB_IMAGE="images.example/kubedsm:0.1.0")
    if table is None:
        del there.env["LAB_NODES"]
    return there


def error(done):
    assert done.returncode == 1
    return next(line for line in done.stderr.splitlines() if line.startswith("lab: error: "))


@pytest.fixture
def there(tmp_path):
    return own(tmp_path)


def test_tiers_are_labels_of_the_lab_until_it_is_gone(there):
    (there.path / "tier-dc-7").write_text("cloud")
    for _ in range(2):
        ok(there("deploy"))
    labels = [call.rpartition(" label ")[2] for call in there.calls() if " label " in call]
    assert labels == [
        "--overwrite node shop-floor-1 kubedsm.io/tier=edge",
        "--overwrite node hall-2 kubedsm.io/tier=edge",
    ]
    ok(there("down"))
    labels = [call.rpartition(" label ")[2] for call in there.calls() if " label " in call]
    assert labels == ["node hall-2 kubedsm.io/tier-", "node shop-floor-1 kubedsm.io/tier-"]
    assert (there.path / "tier-dc-7").exists()
    assert there.journal() == []


def test_tiers_of_somebody_else_are_left_alone(there):
    (there.path / "tier-hall-2").write_text("cloud")
    assert error(there("deploy")) == (
        "lab: error: hall-2 has tier cloud already, and not by this lab"
    )
    assert there.journal() == []
    assert not (there.path / "tier-shop-floor-1").exists()


@pytest.mark.parametrize("table", [TABLE, None], ids=["table", "labels"])
def test_load_is_sent_to_an_edge_node_of_the_cluster(tmp_path, table):
    there = own(tmp_path, table)
    ok(there("deploy"))
    ok(there("run"))
    calls = there.calls()
    (played,) = [call for call in calls if call.startswith("loadgen run ")]
    for name, port in zip("abcd", range(30181, 30185), strict=True):
        assert f"--endpoint {name}=http://10.0.0.2:{port}/" in played
    asked = {call.split()[5] for call in calls if " get node " in call and "InternalIP" in call}
    assert asked == {"shop-floor-1"}
    assert not any("k3d" in call for call in calls)


def test_sites_of_a_table_are_labels_of_the_lab_and_zones_of_somebody_else_stay(tmp_path):
    table = "shop-floor-1 edge:floor - -\nhall-2 edge:hall - -\ndc-7 cloud - -\n"
    there = own(tmp_path / "one", table)
    (there.path / "site-hall-2").write_text("hall")
    ok(there("deploy"))
    labels = [
        call.split(" label ")[1]
        for call in there.calls()
        if "topology" in call and " label " in call
    ]
    assert labels == ["--overwrite node shop-floor-1 topology.kubernetes.io/zone=floor"]
    ok(there("down"))
    assert not (there.path / "site-shop-floor-1").exists()
    assert (there.path / "site-hall-2").exists()
    other = own(tmp_path / "two", table)
    (other.path / "site-hall-2").write_text("elsewhere")
    assert error(other("deploy")) == (
        "lab: error: hall-2 has site elsewhere already, and not by this lab"
    )
    assert other.journal() == []


def test_requests_of_a_service_enter_at_the_site_of_its_users(tmp_path):
    there = own(tmp_path, None)
    (there.path / "labelled").write_text("a-1 edge a\na-2 edge a\nb-1 edge b\ndc-7 cloud z\n")
    ok(there("deploy"))
    ok(there("run"))
    asked = [
        call.split()[5] for call in there.calls() if " get node " in call and "InternalIP" in call
    ]
    assert asked == ["a-1", "b-1"]
    ok(there("latency", "60ms", "15ms"))
    ran = [call for call in there.calls() if " run netem-" in call]
    assert [call.split('"/spec/nodeName", "value": "')[1].split('"')[0] for call in ran] == [
        "dc-7", "a-1", "a-2"
    ]  # fmt: skip


def test_latency_without_ssh_is_set_by_a_pod_in_the_network_of_the_node(there):
    ok(there("latency", "80ms"))
    (ran,) = [call for call in there.calls() if " run netem-" in call]
    assert '"/spec/nodeName", "value": "dc-7"' in ran
    assert there.journal() == ["latency node:dc-7"]
    ok(there("latency", "off"))
    text = (there.path / "calls").read_text()
    assert text.rstrip().endswith("netem off")
    assert there.journal() == []


@pytest.mark.parametrize(
    ("table", "command", "why"),
    [
        (TABLE, "up", f"LAB_KUBECONFIG names a cluster already; next: {LAB / 'lab'} deploy"),
        ("a edge 1 -\nb cloud - -\n", "deploy", "nodes of your own cluster are edge or cloud, and"),
        ("s server - -\na edge - -\nb cloud - -\n", "run", "nodes of your own cluster are edge or"),
        (None, "run", "the cluster has no nodes labelled kubedsm.io/tier=edge and kubedsm.io/tier"),
    ],
)
def test_a_table_that_does_not_fit_the_cluster_is_one_line(tmp_path, table, command, why):
    there = own(tmp_path, table)
    (there.path / "labelled").write_text("dc-7 cloud\n")
    assert why in error(there(command))
    assert there.journal() == []


def test_check_names_missing_kernel_modules_and_needs_no_k3d(there):
    text = TABLE.replace("- -\n", "- - me@one\n")
    (there.path / "nodes").write_text(text)
    (there.path / "without-netem-me@one").touch()
    lines = there("check").stderr.splitlines()
    if not Path("/sys/module/sch_netem").exists():
        assert any(line.startswith("lab: missing: sch_netem on me@one; ") for line in lines)
    assert not any("k3d" in line or "sch_prio" in line for line in lines)


def test_edge_nodes_behind_several_devices_are_all_delayed(there):
    done = subprocess.run(
        ["/bin/sh", LAB / "lib" / "on-node" / "netem.sh", "60ms", "10.0.0.2", "10.0.1.9"],
        env=there.env | {"STANDS_ON": "here", "FAILS": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    calls = [call.removeprefix("here: tc ") for call in ok(done) and there.calls()]
    for device, address in (("eth0", "10.0.0.2"), ("eth1", "10.0.1.9")):
        assert f"qdisc add dev {device} parent d5:4 netem delay 60ms limit 10000" in calls
        assert (
            f"filter add dev {device} parent d5: protocol ip u32 match ip dst {address}/32"
            " flowid d5:4"
        ) in calls


def node(number, name):
    size = {"cpu": "8", "memory": "16Gi", "pods": "110"}
    address = {"type": "InternalIP", "address": f"10.1.0.{number}"}
    status = {"capacity": size, "allocatable": size, "addresses": [address]}
    metadata = {"name": name, "labels": {"kubernetes.io/os": "linux"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}


@pytest.mark.long
@needs_kubectl
def test_it_runs_on_an_emulated_cluster_with_other_node_names(tmp_path):
    names = ("shop-floor-1", "hall-2", "dc-7", "control")
    cluster = tmp_path / "cluster.json"
    items = [node(number, name) for number, name in enumerate(names)]
    cluster.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    with Server("--cluster", cluster) as server:
        there = own(tmp_path / "lab", kubeconfig=Path(server.kubeconfig))
        there.stand_in("kubectl", SOME_OF_KUBECTL)
        there.env["KUBECTL"] = KUBECTL
        kubectl = Kubectl(server.kubeconfig, there.path / "home")
        # The emulated cluster has it for a scheduler beside it.
        kubectl("delete", "namespace", "kubedsm")
        ok(there("deploy"))
        tiers = kubectl("get", "nodes", "-L", "kubedsm.io/tier", "--no-headers")
        assert [line.split()[-1] for line in sorted(tiers.splitlines())][1:] == [
            "cloud", "edge", "edge"
        ]  # fmt: skip
        del there.env["LAB_NODES"]
        ok(there("run"))
        (played,) = [call for call in there.calls() if call.startswith("loadgen run ")]
        assert "--endpoint d=http://10.1.0.1:30184/" in played
        ok(there("down"))
        assert kubectl("get", "nodes", "-l", "kubedsm.io/tier") == "No resources found"
        assert "lab" not in kubectl("get", "namespaces", "-o", "name")
