"""The lab's scripts against stand-ins for K3s, k3d, kubectl, tc, ssh and docker."""

import shutil
import subprocess

import pytest

from support.lab import LAB, SCRIPTS, lab, ok

pytestmark = pytest.mark.http

SHELLCHECK = shutil.which("shellcheck")
K3D = "n2 edge 1250 1250\nn5 cloud 5500 4250\n"
MACHINES = """\
n1 server -    -    me@one
n2 edge   1250 1250 me@two
n5 cloud  -    -    me@three
"""
SITES = """\
n2 edge:north 1250 1250
n3 edge:south 1000 1000
n4 edge:west  1750 1250
n5 cloud      5500 4250
"""
BOTH = pytest.mark.parametrize("nodes", [K3D, MACHINES], ids=["k3d", "machines"])


@pytest.fixture
def by_k3d(tmp_path):
    return lab(tmp_path / "k3d", K3D)


@pytest.fixture
def by_ssh(tmp_path):
    return lab(tmp_path / "ssh", MACHINES)


def refused(done, *lines):
    assert done.returncode == 1
    assert [line for line in done.stderr.splitlines() if line.startswith("lab: ")] == [*lines]


@pytest.mark.skipif(SHELLCHECK is None, reason="not installed: shellcheck")
def test_shellcheck_finds_nothing():
    done = subprocess.run(
        [SHELLCHECK, *SCRIPTS], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.stdout == ""
    assert done.returncode == 0


def test_k3d_makes_nodes_of_the_sizes_and_tiers_of_the_table(by_k3d):
    ok(by_k3d("up"))
    calls = by_k3d.calls()
    (created,) = [call for call in calls if call.startswith("k3d cluster create")]
    assert "--agents 2" in created
    # The machine has 8 cores and 16 GB.
    assert "system-reserved=cpu=6750m,memory=14750M@agent:0" in created
    assert "system-reserved=cpu=2500m,memory=11750M@agent:1" in created
    labels = [call.rpartition(" label ")[2] for call in calls if " label " in call]
    assert labels == [
        "--overwrite node k3d-kubedsm-lab-agent-0 kubedsm.io/tier=edge",
        "--overwrite node k3d-kubedsm-lab-agent-1 kubedsm.io/tier=cloud",
    ]
    kubeconfig = by_k3d.path / "state" / "kubeconfig"
    assert kubeconfig.stat().st_mode & 0o077 == 0


def test_machines_get_a_server_and_agents_that_join_it(by_ssh):
    ok(by_ssh("up"))
    calls = by_ssh.calls()
    installs = [call for call in calls if ": installs " in call]
    assert [call.split()[:4] for call in installs] == [
        ["me@one:", "installs", "v1.33.1+k3s1", "server"],
        ["me@two:", "installs", "v1.33.1+k3s1", "agent"],
        ["me@three:", "installs", "v1.33.1+k3s1", "agent"],
    ]
    assert "--server=https://10.0.0.1:6443" in installs[1]
    assert "--kubelet-arg=system-reserved=cpu=6750m,memory=14750M" in installs[1]
    assert "system-reserved" not in installs[0] + installs[2]
    token = (by_ssh.path / "state" / "token").read_text()
    assert len(token) == 48
    assert not any(token in call for call in calls)
    assert "10.0.0.1" in (by_ssh.path / "state" / "kubeconfig").read_text()


def test_sites_are_zones_with_latency_between_them_and_entrances_of_services(tmp_path):
    there = lab(tmp_path, SITES)
    ok(there("up"))
    calls = there.calls()
    zones = [call.rpartition(" label ")[2] for call in calls if "topology" in call]
    assert zones == [
        f"--overwrite node k3d-kubedsm-lab-agent-{number} topology.kubernetes.io/zone={site}"
        for number, site in enumerate(("north", "south", "west"))
    ]
    (created,) = [call for call in calls if call.startswith("k3d cluster create")]
    for port, agent in zip(range(30181, 30185), (0, 1, 2, 0), strict=True):
        assert f"--port 127.0.0.1:{port}:{port}@agent:{agent}:direct" in created
    ok(there("latency", "60ms", "15ms"))
    delays = [call for call in there.calls() if "netem delay" in call]
    assert [(call.split(":")[0][-1], call.split(" delay ")[1].split()[0]) for call in delays] == [
        ("3", "60ms"), ("0", "15ms"), ("1", "15ms")
    ]  # fmt: skip
    ok(there("latency", "60ms"))
    assert there.journal()[1:] == ["latency docker:k3d-kubedsm-lab-agent-3"]
    ok(there("latency", "off"))
    assert there.journal() == ["k3d kubedsm-lab"]
    assert not any(name.startswith("late-") for name in there.there())


def test_latency_between_sites_needs_sites(by_k3d):
    ok(by_k3d("up"))
    refused(
        by_k3d("latency", "60ms", "15ms"),
        "lab: error: no edge node has a site: write edge:SITE in the table of nodes, or label nodes"
        " with topology.kubernetes.io/zone",
    )
    refused(by_k3d("latency", "60ms", "off"), "lab: error: off: not a time such as 60ms, nor off")


@BOTH
def test_all_of_it_twice_is_as_once_and_down_leaves_nothing(tmp_path, nodes):
    there = lab(tmp_path, nodes)
    for command in (["up"], ["deploy"], ["latency"], ["latency", "80ms"]):
        ok(there(*command))
    calls = [call.split(": tc ")[1] for call in there.calls() if ": tc " in call]
    # The cloud is late at the edge.
    assert calls[-2:] == [
        "qdisc add dev eth0 parent d5:4 netem delay 80ms limit 10000",
        "filter add dev eth0 parent d5: protocol ip u32 match ip dst 10.0.0.2/32 flowid d5:4",
    ]
    for command in (["up"], ["deploy"]):
        ok(there(*command))
    assert not any("k3d cluster create" in call for call in there.calls())
    once = there.journal()
    assert len(set(once)) == len(once)
    late = {name for name in there.there() if name.startswith("late-")}
    assert len(late) == 1
    ok(there("latency", "off"))
    assert not any(name.startswith("late-") for name in there.there())
    assert not any(line.startswith("latency") for line in there.journal())
    ok(there("down"))
    assert there.journal() == []
    assert there.there() == set()
    there.calls()
    done = ok(there("down"))
    assert done.stderr == "lab: the lab has created nothing\n"
    assert there.calls() == []


def test_what_is_not_the_labs_is_left_alone(by_k3d, by_ssh):
    (by_k3d.path / "k3d-kubedsm-lab").touch()
    refused(
        by_k3d("up"),
        "lab: error: k3d has a cluster kubedsm-lab already, and not by this lab; "
        "LAB_CLUSTER names another",
        "lab: interrupted or failed; removing what was created",
    )
    assert by_k3d.there() == {"k3d-kubedsm-lab"}
    (by_ssh.path / "me@two").mkdir()
    done = by_ssh("up")
    assert "me@two has K3s already, and not by this lab" in done.stderr
    assert by_ssh.there() == {"me@two"}
    assert by_ssh.journal() == []


def test_namespaces_and_queues_of_somebody_else_are_left_alone(by_k3d, by_ssh):
    ok(by_k3d("up"))
    (by_k3d.path / "namespace-lab-monitoring").touch()
    by_k3d.calls()
    refused(
        by_k3d("deploy"),
        "lab: error: there is a namespace lab-monitoring already, and not by this lab",
        "lab: interrupted or failed; removing what was created",
    )
    deleted = [call for call in by_k3d.calls() if " delete " in call]
    assert len(deleted) == 1
    assert by_k3d.journal() == ["k3d kubedsm-lab"]
    ok(by_ssh("up"))
    (by_ssh.path / "root-me@three").touch()
    done = by_ssh("latency")
    assert done.returncode == 1
    assert "eth0 has a foreign queueing discipline: qdisc tbf 8001: root" in done.stderr
    assert not any("latency" in line for line in by_ssh.journal())


@pytest.mark.parametrize(
    ("nodes", "fails"),
    [(K3D, "k3d cluster create"), (K3D, "label --overwrite"), (MACHINES, "me@three: agent")],
)
def test_up_that_fails_on_the_way_leaves_nothing(tmp_path, nodes, fails):
    there = lab(tmp_path, nodes)
    assert there("up", fails=fails).returncode != 0
    assert there.there() == set()
    assert there.journal() == []


@pytest.mark.parametrize("fails", ["k3d image import", "deployment/grafana"])
def test_deploy_that_fails_on_the_way_takes_its_own_away_and_nothing_else(by_k3d, fails):
    ok(by_k3d("up"))
    assert by_k3d("deploy", fails=fails).returncode != 0
    assert by_k3d.journal() == ["k3d kubedsm-lab"]
    assert by_k3d.there() == {"k3d-kubedsm-lab"}


def test_what_cannot_be_taken_away_is_remembered(by_k3d):
    ok(by_k3d("up"))
    refused(
        by_k3d("down", fails="cluster delete"),
        "lab: could not remove: k3d kubedsm-lab",
        "lab: error: some parts could not be removed; try again",
    )
    assert by_k3d.journal() == ["k3d kubedsm-lab"]
    ok(by_k3d("down"))
    assert by_k3d.there() == set()


@pytest.mark.parametrize(
    ("nodes", "edge"), [(K3D, "127.0.0.1"), (MACHINES, "10.0.0.2")], ids=["k3d", "machines"]
)
def test_a_run_comes_in_at_the_edge_and_is_recorded(tmp_path, nodes, edge):
    there = lab(tmp_path, nodes)
    ok(there("up"))
    assert there("run").stderr.endswith(f"nothing is deployed; {LAB / 'lab'} deploy\n")
    ok(there("deploy"))
    there.calls()
    ok(there("run"))
    calls = there.calls()
    (played,) = [call for call in calls if call.startswith("loadgen run ")]
    for name, port in zip("abcd", range(30181, 30185), strict=True):
        assert f"--endpoint {name}=http://{edge}:{port}/" in played
    (recorded,) = [call for call in calls if call.startswith("kubedsm record ")]
    assert "--policy kubedsm " in recorded
    assert calls.index("recording") < calls.index(played)
    (told,) = [call for call in calls if "port-forward" in call]
    port = told.rpartition(" ")[2].removesuffix(":10270")
    assert f"--server http://127.0.0.1:{port} " in recorded
    assert "port-forward pod/kubedsm-1 " in told


def test_a_report_has_all_runs_that_came_to_something(by_k3d):
    assert by_k3d("report").stderr.endswith(f"no run yet; {LAB / 'lab'} run\n")
    for run in ("one", "two", "broken-off"):
        (by_k3d.path / "state" / "reports" / run).mkdir(parents=True)
    for run in ("two", "one"):
        (by_k3d.path / "state" / "reports" / run / "results.json").touch()
    ok(by_k3d("report"))
    folder = by_k3d.path / "state" / "reports"
    assert by_k3d.calls()[0] == (
        f"kubedsm record --compare {folder}/one {folder}/two --out {folder}/compared"
    )


def test_no_load_is_sent_that_nothing_records(by_k3d):
    ok(by_k3d("up"))
    ok(by_k3d("deploy"))
    by_k3d.calls()
    refused(
        by_k3d("run", fails="kubedsm record"), "lab: error: no recording: kubedsm was told to fail"
    )
    assert not any(call.startswith("loadgen") for call in by_k3d.calls())


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        ("n2 edge 1250\n", "nodes:1: not NAME server|edge[:SITE]|cloud CPU MEMORY [SSH]"),
        (
            "n2 edge 1 1\nn3 fog 1 1\n",
            "nodes:2: not NAME server|edge[:SITE]|cloud CPU MEMORY [SSH]",
        ),
        ("n2 cloud:x 1 1\n", "nodes:1: not NAME server|edge[:SITE]|cloud CPU MEMORY [SSH]"),
        ("n2 edge 1 1\n", "nodes: no cloud node"),
        (K3D + "n1 server - -\n", "nodes: k3d makes the server; name none"),
        (K3D + "n1 server - - me@one\n", "nodes: some nodes have a machine, and some have none"),
        ("n2 edge - - a\nn5 cloud - - b\n", "nodes: not one server"),
        ("n2 edge 9000 1\nn5 cloud - -\n", "n2: 9000m and 1 MB are more than its machine's 8000m"),
    ],
)
def test_a_wrong_table_of_nodes_is_one_line(tmp_path, nodes, why):
    there = lab(tmp_path, nodes)
    done = there("up")
    assert done.returncode == 1
    assert why in done.stderr.splitlines()[0]
    assert there.there() == set()


def test_check_says_all_that_is_missing_and_how_to_get_it(tmp_path):
    there = lab(tmp_path, K3D, without=("docker", "k3d", "kubectl", "kubedsm", "loadgen"))
    there.env["PATH"] = f"{tmp_path / 'bin'}:{bare(tmp_path)}"
    done = there("check")
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    for program in ("docker", "k3d", "kubectl", "kubedsm", "loadgen", "prometheus"):
        assert any(line.startswith(f"lab: missing: {program}; ") for line in lines)
    assert len(lines) == len(set(lines))
    assert "prometheus-node-exporter" in done.stderr


@pytest.mark.parametrize("command", ["check", "run", "emulated", "report"])
def test_a_library_without_which_no_report_is_drawn_is_missing_from_the_start(by_k3d, command):
    ok(by_k3d("up"))
    by_k3d.calls()
    lines = by_k3d(command, fails="matplotlib").stderr.splitlines()
    assert any(line.startswith("lab: missing: matplotlib; python3 -m venv ") for line in lines)
    assert not any("record" in call for call in by_k3d.calls())


def bare(tmp_path):
    """A folder with what any machine has, and nothing more."""
    folder = tmp_path / "bare"
    folder.mkdir()
    for name in ("bash", "env", "dirname", "grep", "sed", "sort", "mkdir", "wc"):
        (folder / name).symlink_to(shutil.which(name))
    return folder


def test_usage_names_every_command_and_without_a_cluster_how_to_make_one(by_k3d):
    done = ok(by_k3d("help"))
    for command in ("check", "up", "latency", "deploy", "run", "report", "down", "emulated"):
        assert f"\n  {command} " in done.stdout
    assert by_k3d("make").stderr.endswith("lab: error: make: no such command\n")
    for command in ("deploy", "latency", "run"):
        refused(by_k3d(command), f"lab: missing: a cluster; make one: {LAB / 'lab'} up")
