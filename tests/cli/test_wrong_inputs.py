"""Wrong inputs: none ends in a traceback, each in one line with the mistake and the remedy."""

import os
import shlex
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from kubedsm.app.leader_election import LeaseTimes
from kubedsm.cli.main import commands
from kubedsm.cli.options import DIAGNOSTICS_PORT, LOOPBACK, leader_election
from kubedsm.explain import server
from kubedsm.kube.client.port import ObjectName
from kubedsm.solvers.available import LIBRARIES
from kubedsm_lab.chaos.workloads import WORKLOADS
from kubedsm_lab.cli import chaos, compare, replay
from kubedsm_lab.comparison.experiments import EXPERIMENTS
from loadgen import scenario
from loadgen.generators import normal, serve_replicas
from support import command_line, dumps
from support.command_line import kubedsm
from support.processes import unreachable, write


@pytest.mark.parametrize(
    ("typed", "library"),
    [
        ("bench burst", "trustme"),
        ("emulate --tls --port 0", "trustme"),
        ("compare --only burst --out here", "trustme"),
        ("compare --only nodes --out here", "matplotlib"),
        ("replay 1.5-.4 --out here", "matplotlib"),
        ("record --scenario load.json --out here", "matplotlib"),
    ],
)
def test_a_missing_library_is_named_before_anything_runs(typed, library, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, library, None)
    done = CliRunner().invoke(commands, typed.split())
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == f"Error: not installed: {library}; pip install kubedsm-lab\n"
    assert list(tmp_path.iterdir()) == []


#: configuration documents, and parts of the line that refuses each; tests of the reader have more
CONFIGURATIONS = {
    "suggester: {mode: appply}": ("'appply' is not apply, suggest or off", "did you mean apply?"),
    "services: {shop/cart: {latencyTarget: 50%}}": ("shop/cart.latencyTarget: '50%'", "qos, such"),
    "site: {demand: ingres-nginx}": ("is the name of no query; did you mean ingress-nginx?",),
    "preemption: true": ("preemption: true is not disabled or enabled", "quote it"),
    "kind: Deployment\napiVersion: apps/v1": ("this is a Deployment, not a configuration",),
}
#: commands that end with exit code 2, and a part of the line
USAGE = {
    "stauts": "No such command 'stauts'. Did you mean status?",
    "xyzzy": "No such command 'xyzzy' (see kubedsm --help)",
    "config chekc f": "No such command 'chekc'. Did you mean 'check'?",
    "run --dryrun": "No such option '--dryrun'. Did you mean '--dry-run'?",
    "--contxt c suggest": "No such option '--contxt'. Did you mean '--context'",
    "--kubeconfig none config check f": "No such option '--kubeconfig'",
    "run extra": "Got unexpected extra argument (extra)",
    "run --log-level warn": "Did you mean warning?",
    "run --leader-elect=maybe": "'maybe' is not true or false",
    "run --configmap a/b --config x": "--config and --configmap: only one of them",
    "run --configmap kubedsm": "kubedsm is not NAMESPACE/NAME, such as kubedsm/kubedsm",
    "run --namespace A_b": "'A_b' is not a name of a namespace, such as kubedsm",
    "run --page-host a/b --page": "'a/b' is not a host's name, without a port",
    "run --page --page-token-file t:x": "is about --page-address",
    "run --page-host kubedsm.example": "is about --page or --page-address",
    "run --page-history new": "--page-history is about --page or --page-address",
    "run --page-address :0 --page-token-file t:": "--page-token-file",
    "run --page-address 0.0.0.0:80": "--page-address beyond loopback needs --page-token-file",
    "run --leader-elect-lease-duration 15": "'15' is not a duration, such as 500ms, 10s or 1m30s",
    "run --leader-elect-lease-duration 10s": "lease-duration must be more than",
    "run --leader-elect-renew-deadline 2s": "renew-deadline must be more than",
    "run --leader-elect-retry-period 0s": "retry-period must be more than 0",
    "run --leader-elect-resource-name A/b": "resource-name: 'A/b'",
    **{
        f"run --metrics-address {address}": f"'{address}' is not HOST:PORT, such as 127.0.0.1:10271"
        for address in ("10271", "localhost:http", "::1:80", "[::1]", ":70000", ":")
    },
    "opt-in -n a/b deployment/c": "'a/b' is not a name",
    "opt-in ds/shop/web": "ds is not a kind of workload; write NAMESPACE, or KIND/NAMESPACE/NAME",
    "emulate --port 70000": "70000",
    "emulate --token x": "--token-file",
    "emulate --tls-san a": "--tls",
    "emulate --run-pods . --network edge=fast": "Invalid value for '--network': 'fast' is not a",
    "emulate --run-pods . --network fog=1s": "'fog=1s' is not a tier's time, such as edge=20ms",
    "emulate --network edge=1s": "--network and --metrics-address are about pods that --run-pods",
    "emulate --hpa-metrics prometheus": "'prometheus' is not a URL such as http://cart.shop/",
    "demo --no-open": "--no-open is about the page of --page",
    "demo --picture none/demo.svg": "Invalid value for '--picture': none: no such folder",
    "demo --picture file/demo.svg": "no folder",
    "demo --picture demo.png": "does not end with .svg",
    "chaos --explore --workload burst": "--workload has no effect with --explore",
    "chaos --kubeconfig k: --fault call:get-pods:0:503": "--fault has no effect with --kubeconfig",
    "chaos --yes": "--yes needs --kubeconfig",
    **{
        f"chaos --workload burst --fault {fault}": (
            f"--fault {fault} finds no such call or event, with --workload burst --seed 0"
        )
        for fault in ("call:create-pods/binding:99:409", "tea:create-cups:0:tea")
    },
    "compare --out out --only bursts": "load-aware, packing. Did you mean burst? (see",
    "compare --out out --only paper,,": "'--only': a name is empty",
    "compare --out out --only paper,paper": "'--only': 'paper' is given twice",
    "compare --out out --jobs 0": "--jobs",
    "bench footprint --nodes 1 --pods 51": "--pods: more than 50 for each node",
    "bench scale --nodes 1,2 --pods 3": "--nodes and --pods: not as many of the one",
    "bench scale --nodes 1,0 --pods 3,4": "'1,0' is no list of numbers from 1 up",
    "bench burst --schedulers kubedsm,,D": "Invalid value for '--schedulers': a name is empty",
    "bench burst --policies kubedsm,none": "Invalid value for '--policies': no policy 'none'",
    "bench burst --policies random,random": "'random' is given twice",
    "bench burst -n 551": "the paper's five workers take 550 pods, not 551",
    "bench burst --policies kubedsm --keepalive 15": "--keepalive is about bare-loop",
    "bench burst --schedulers kubedsm": "--schedulers is for a real cluster, with --kubeconfig",
    "bench burst --kubeconfig x --policies kubedsm": "--policies is not for a real cluster",
    "status -n shop -A": "-n and -A: only one of them",
    "explain": "name POD, NAMESPACE/POD",
    "explain x --all": "job/NAME, migration/ID or decision/NUMBER; or --all",
    "explain a/b/c": "a/b/c cannot be explained, a is not a known kind: name POD, NAMESPACE/POD",
    "explain deploymnt/shop/cart": "deploymnt is not a known kind; did you mean deployment?",
    **{
        f"explain {shlex.quote(name)}": f"{name!r} lacks a name: name POD"
        for name in ("node/", "/", "shop/", "", " ")
    },
    "explain shop/x -n web": "shop/x is not in namespace web",
    "explain x --server nowhere": "nowhere is not an address such as http://127.0.0.1:10270",
    "pack --from d --apply": "--apply needs a cluster, not a dump",
    "suggest --from d --apply": "--apply needs a cluster, not a dump",
    "approve": "Missing argument 'ID'",
    "approve zz": "zz is not the id of a proposal, such as 3f2a91c0",
    "config show f --configmap a/b": "FILE and --configmap: only one of them",
    **dict.fromkeys(
        ("record", "record --compare", "record r", "record --compare --scenario scenario r"),
        "give --scenario, or --compare and folders: one of the two",
    ),
    "record --scenario scenario --namespace A": "--namespace: 'A' is not such a name",
    "record --scenario scenario --seconds 0": "--seconds",
    "record --scenario scenario --out egde": "egde",
    "replay": "give scenarios, or --preset: one of the two",
    "replay --preset paper --page x.html": "--page needs a scenario, not --preset",
    "replay 1.5-.4 --full": "--full needs --preset",
    "replay --preset all": "'all' is not",
    "replay 1.5-.4 --policies kubedms": "no policy 'kubedms': did you mean kubedsm?",
    "replay 1.5-.4 --policies zzz": "no policy 'zzz': there are kubedsm, kube-sch",
    "replay 1.5-.4 --policies kubedsm,,": "'--policies': a name is empty",
    "replay 1.5-.4 --policies suggester.perod=5s": "did you mean period?",
    "replay 1.5-.4 --policies suggester.period=5": "5 is not a duration",
    "replay 1.5-.4 --seeds 0": "--seeds",
    "replay 1.5-.4 --executor tcp://h:1": "'tcp://h:1' is not dask=ADDRESS",
}
#: those that end with exit code 1
FAILED = {
    "emulate --token-file t:": "t: not a token",
    "emulate --tls --tls-san 'a b'": "'a b'",
    "emulate --port 0 --run-pods file/x": "file/x/logs: Not a directory",
    "emulate --cluster papr": "papr: no such file; did you mean paper?",
    "emulate --cluster egde": "egde: nodes[0].tier: 'egde' is not edge or cloud; did you",
    "emulate --cluster four": "four: nodes[0].cpu: 'four' is not a quantity, such as 500m, 2",
    "run --config none": "none",
    "run --config 'c:batch: {idle: 5}'": "batch.idle",
    "run --kubeconfig 'k:{]'": "k: not YAML: ",
    "place --from none": "none: No such file or directory",
    "place --from 'd:}{'": "d: not YAML: ",
    "place --from d --config none": "none: No such file or directory",
    "config show none": "none: No such file or directory",
    "watch --token-file none": "none: No such file or directory",
    "status": "kubeconfig none: no such file",
    "--context c suggest": "kubeconfig none: no such file",
    "suggest --kubeconfig gone": "kubeconfig gone: no such file",
    "explain x --kubeconfig k --context prod": "no context 'prod', only kubedsm-emulated",
    **{
        f"{command} --kubeconfig k": "connection refused; check that the API server runs, and that"
        for command in (
            *("status", "check", "explain x", "suggest", "uninstall"),
            "record --scenario scenario",
        )
    },
    "explain pod/x --from d": "there is no pod x; `kubectl get pods -A` lists them",
    "explain crt --from d": "there is no pod crt; did you mean shop/cart?",
    "explain deplyment/cart --from d": "deplyment is not a known kind; did you mean deployment?",
    "explain deployment/cart --from d": "no deployment cart has pods with schedulerName: kubedsm",
    "explain node/e11 --from d": "there is no node e11; did you mean e1?",
    "explain node/zz --from d": "there is no node zz; `kubectl get nodes` lists them",
    "explain migration/x --from d": "only the scheduler that decided migration x can explain it",
    "record --scenario none": "none: No such file or directory",
    "record --scenario b:{}": "b: Object missing required field `apis`",
    "record --scenario scenario --config egde": "egde: ",
    "record --scenario scenario --requests b:{}": "b: is of load that has",
    "record --compare none": "none/results.json: No such file or directory",
    "record --scenario scenario --kubeconfig none": "none",
    "replay 1.5-.4 --page /dev/null/x.html": "/dev/null: ",
    "replay 1.5-.4 1.5-.4": "1.5-.4: given twice",
    "replay none": "none: neither a file nor MEAN-SIGMA, such as 1.5-.4",
    "replay 1.5-.4 --cluster none": "none: No such file or directory",
    "replay 1.5-.4 --executor dask=tcp://h:1 --jobs 2": "--executor excludes --jobs",
    "replay map": "map: this is a ConfigMap, not a load scenario",
    "replay empty": "empty: apis: empty",
    "replay zz": "zz: apis[0].name: no service 'zz' among a, b, c, d",
    "watch --server http://127.0.0.1:9": "no response from http://127.0.0.1:9: start a scheduler",
    "watch --token-file t:": "t: ",
    "watch --token-file 't:two words'": "t: ",
}
FILES = {
    "egde": "nodes: [{name: e1, tier: egde, cpu: 4, memory: 4Gi}]",
    "four": "nodes: [{name: e1, tier: edge, cpu: four, memory: 4Gi}]",
    "d": dumps.dump_of(dumps.node("e1", "edge"), dumps.pod("cart")).decode(),
    "scenario": scenario.dumps(normal(1.5, 0.4, seed=3, cycles=1, cycle_seconds=20)),
    "zz": scenario.dumps(serve_replicas({"zz": (1,)}, 20.0, "/")),
    "empty": '{"apis": []}',
    "map": "apiVersion: v1\nkind: ConfigMap",
}


def run_with_files(arguments, tmp_path, monkeypatch):
    """Run in a folder with files; an argument FILE:TEXT creates one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", "none")
    for name, text in {"file": "", **FILES}.items():
        write(tmp_path, name, text)
    (tmp_path / "folder").mkdir()
    unreachable(tmp_path).rename(tmp_path / "k")
    for at, (name, colon, text) in enumerate(each.partition(":") for each in arguments):
        if colon and name.isalpha() and len(name) == 1:
            write(tmp_path, name, text)
            arguments = [*arguments[:at], name, *arguments[at + 1 :]]
    given = sorted(tmp_path.iterdir())
    done = command_line.kubedsm(*arguments)
    assert sorted(tmp_path.iterdir()) == given
    return done


CASES = {
    **{typed: (shlex.split(typed), 2, says) for typed, says in USAGE.items()},
    **{typed: (shlex.split(typed), 1, says) for typed, says in FAILED.items()},
    **{
        f"configuration {text}": (["config", "check", f"c:{text}"], 1, *says)
        for text, says in CONFIGURATIONS.items()
    },
}


@pytest.mark.parametrize("case", CASES)
def test_wrong_input_gets_one_line_and_an_exit_code(case, tmp_path, monkeypatch):
    arguments, code, *says = CASES[case]
    done = run_with_files(arguments, tmp_path, monkeypatch)
    assert done.returncode == code, done.stderr
    if arguments[:2] == ["config", "check"] and not done.stderr:
        [line] = done.stdout.splitlines()
        assert line.startswith("c: ")
    else:
        assert done.stdout == ""
        *remarks, line = done.stderr.splitlines()
        assert line.startswith("kubedsm: error: ")
        assert remarks == []
    assert [text for text in says if text not in line] == [], line


def leaves(group=commands, path=()):
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        if isinstance(command, click.Group):
            yield from leaves(command, (*path, name))
        else:
            yield (*path, name), command


EVERY = dict(leaves())
#: arguments with which a command comes to what it is asked about, several if in several ways
NEEDED = {
    ("approve",): ["3f2a91c0"],
    ("chaos",): ["--yes"],
    ("config", "show"): ["--configmap a/b", "--running"],
    ("explain",): ["x", "--all -l app=cart --config file"],
    ("opt-in",): ["shop"],
    ("opt-out",): ["shop"],
    ("pack",): ["", "--config file"],
    ("place",): ["--from d"],
    ("record",): ["--scenario scenario"],
    ("replay",): ["scenario"],
    ("suggest",): ["", "--config file"],
}


def having(*options):
    """Return ways to run the commands that have these options."""
    return [
        (path, arguments.split())
        for path, command in EVERY.items()
        if {*options} <= {name for parameter in command.params for name in parameter.opts}
        for arguments in NEEDED.get(path, [""])
    ]


def refusal(arguments, tmp_path, monkeypatch):
    """Return the exit code and the only line of a command."""
    done = run_with_files(arguments, tmp_path, monkeypatch)
    assert done.stdout == "" or arguments[0] == "version"  # which begins with its own
    [line] = done.stderr.splitlines()
    assert line.startswith(("kubedsm: error: ", "kubedsm: cluster not read: "))
    return done.returncode, line


@pytest.mark.parametrize("path", EVERY, ids=" ".join)
def test_a_flag_that_does_not_exist(path, tmp_path, monkeypatch):
    code, line = refusal([*path, "--no-such-flag"], tmp_path, monkeypatch)
    assert (code, "No such option '--no-such-flag'" in line) == (2, True), line


OF_CLUSTERS = having("--kubeconfig", "--context")


@pytest.mark.parametrize(("path", "arguments"), OF_CLUSTERS, ids=str)
def test_a_kubeconfig_that_cannot_be_read(path, arguments, tmp_path, monkeypatch):
    wrong = [*path, *arguments, "--kubeconfig", "folder"]
    code, line = refusal(wrong, tmp_path, monkeypatch)
    assert code in (1, 2)
    assert "folder" in line
    assert "directory" in line


@pytest.mark.parametrize(("path", "arguments"), OF_CLUSTERS, ids=str)
def test_a_context_that_the_kubeconfig_lacks(path, arguments, tmp_path, monkeypatch):
    """No command takes the current context instead, which may be another cluster."""
    wrong = [*path, *arguments, "--kubeconfig", "k", "--context", "prod"]
    code, line = refusal(wrong, tmp_path, monkeypatch)
    assert (code, "k: no context 'prod', only kubedsm-emulated" in line) == (1, True), line


#: a dump takes the place of a cluster
DUMPED = {path: NEEDED[path][0].split() for path in (("explain",), ("place",))}
READ = [
    *((path, [*arguments, "--config"]) for path, arguments in having("--config")),
    *((path, [*DUMPED.get(path, ()), "--from"]) for path in dict(having("--from"))),
]


@pytest.mark.parametrize(("path", "arguments"), READ, ids=str)
def test_a_file_that_cannot_be_read(path, arguments, tmp_path, monkeypatch):
    code, line = refusal([*path, *arguments, "folder"], tmp_path, monkeypatch)
    assert code in (1, 2)
    assert "folder" in line
    assert "directory" in line


def test_names_and_defaults_are_those_of_what_they_are_of():
    assert tuple(WORKLOADS) == chaos.WORKLOADS
    assert tuple(each.name for each in EXPERIMENTS) == compare.EXPERIMENTS
    assert (*LIBRARIES, "off") == replay.SOLVERS
    assert (LOOPBACK, DIAGNOSTICS_PORT) == (server.LOOPBACK, server.PORT)
    context = click.command()(leader_election(lambda: None)).make_context("", [])
    times, lease = LeaseTimes(), ObjectName()
    assert context.params == {
        "leader_elect": True,
        "lease_duration": times.duration,
        "renew_deadline": times.renew_deadline,
        "retry_period": times.retry_period,
        "resource_namespace": lease.namespace,
        "resource_name": lease.name,
    }


@pytest.mark.parametrize(
    ("typed", "group"),
    [([], "kubedsm"), (["bench"], "kubedsm bench"), (["config"], "kubedsm config")],
)
def test_who_says_no_command_is_shown_which_there_are(typed, group):
    done = kubedsm(*typed)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Usage: {group} [OPTIONS] COMMAND")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script_that_asks_the_command(shell):
    done = kubedsm("completion", shell)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"_KUBEDSM_COMPLETE={shell}_complete" in done.stdout


@pytest.mark.http
@pytest.mark.parametrize(
    ("typed", "code", "line"),
    [
        ("place --from - <&-", 1, "standard input: Bad file descriptor"),
        ("--help >&-", 1, "standard input or output is closed"),
        ("--help >/dev/full", 1, "standard output: No space left on device"),
    ],
)
def test_what_is_closed_or_full_is_one_line(typed, code, line):
    done = subprocess.run(
        ["/bin/sh", "-c", f"{sys.executable} -m kubedsm {typed}"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (code, f"kubedsm: error: {line}\n")


@pytest.mark.http
def test_tables_that_nobody_reads_on_end_as_all_else_does():
    code = (
        "import click, rich; from kubedsm.terminal.running import run;"
        " run(click.command()(lambda: rich.print('a table')), 'kubedsm')"
    )
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write) as nobody:
        done = subprocess.run(
            [sys.executable, "-c", code], check=False, stdout=nobody, stderr=subprocess.PIPE
        )
    assert (done.returncode, done.stderr) == (141, b"")
