"""Wrong inputs: none ends in a traceback, each in one line with the mistake and the remedy."""

import shlex
import sys

import pytest
from click.testing import CliRunner

from kubedsm.cli.main import commands
from support import command_line, dumps
from support.processes import unreachable, write

#: arguments, exit code, and a part of the line; FILE:TEXT is a file with this text
BAD = {
    "unknown command": (["frobnicate"], 2, "frobnicate"),
    "unknown option": (["run", "--frobnicate"], 2, "--frobnicate"),
    "missing option": (["place"], 2, "--from"),
    "bad output": (["emulate", "-o", "xml"], 2, "xml"),
    "port out of range": (["emulate", "--port", "70000"], 2, "70000"),
    "no dump": (["place", "--from", "none"], 1, "none: No such file"),
    "not a dump": (["place", "--from", "d:}{"], 1, "d: not YAML: "),
    "no token": (["emulate", "--token-file", "t:"], 1, "t: not a token"),
    "token on the command line": (["emulate", "--token", "x"], 2, "--token-file"),
    "a name without a certificate": (["emulate", "--tls-san", "a"], 2, "--tls"),
    "no name for a certificate": (["emulate", "--tls", "--tls-san", "a b"], 1, "'a b'"),
    "no cluster file": (["emulate", "--cluster", "none"], 1, "none"),
    "no configuration": (["run", "--config", "none"], 1, "none"),
    "bad configuration": (["run", "--config", "c:batch: {idle: 5}"], 1, "batch.idle"),
    "two configurations": (
        ["run", "--configmap", "a/b", "--config", "x"],
        2,
        "--config and --configmap: only one of them",
    ),
    "no namespace": (
        ["run", "--configmap", "kubedsm"],
        2,
        "kubedsm is no namespace and name, such",
    ),
    "no name of a namespace": (["opt-in", "-n", "a/b", "deployment/c"], 2, "'a/b' is not a name"),
    "more than a name": (["run", "--configmap", "a/b/c"], 2, "a/b/c is no namespace and name"),
    "no kubeconfig": (["run", "--kubeconfig", "none"], 1, "none"),
    "bad kubeconfig": (["run", "--kubeconfig", "k:{]"], 1, "k: not YAML: ", "content, line 1"),
    "a fault in an exploration": (
        ["chaos", "--explore", "--workload", "burst"],
        2,
        "--workload has no effect with --explore",
    ),
    "a cluster and a fault": (
        ["chaos", "--kubeconfig", "k:", "--fault", "call:get-pods:0:503"],
        2,
        "--fault has no effect with --kubeconfig",
    ),
    "consent to nothing": (["chaos", "--yes"], 2, "--yes needs --kubeconfig"),
    "no page token": (
        ["run", "--page-address", ":0", "--page-token-file", "t:"],
        2,
        "--page-token-file",
    ),
    "no duration": (["run", "--leader-elect-lease-duration", "15"], 2, "'15' is not a duration"),
    "a short lease": (
        ["run", "--leader-elect-lease-duration", "10s"],
        2,
        "lease-duration must be more than",
    ),
    "a short renewal": (
        ["run", "--leader-elect-renew-deadline", "2s"],
        2,
        "renew-deadline must be more than",
    ),
    "no pause between tries": (
        ["run", "--leader-elect-retry-period", "0s"],
        2,
        "retry-period must be more than 0",
    ),
    "no name of a lease": (
        ["run", "--leader-elect-resource-name", "A/b"],
        2,
        "resource-name: 'A/b'",
    ),
    "no grace period": (["run", "--grace-period", "soon"], 2, "'soon' is not a duration"),
    **{
        f"no address: {address}": (
            ["run", "--metrics-address", address],
            2,
            f"'{address}' is not HOST:PORT, such as 127.0.0.1:10271",
        )
        for address in ("10271", "localhost:http", "::1:80", "[::1]", ":70000", ":")
    },
    "no network": (
        ["emulate", "--run-pods", ".", "--network", "edge=fast"],
        2,
        "Invalid value for '--network': 'fast' is not a duration, such as 500ms, 10s or 1m30s",
    ),
    "no tier's time": (
        ["emulate", "--run-pods", ".", "--network", "fog=1s"],
        2,
        "Invalid value for '--network': 'fog=1s' is not a tier's time, such as edge=20ms",
    ),
    "a network of no pods": (
        ["emulate", "--network", "edge=1s"],
        2,
        "--network and --metrics-address are about pods that --run-pods runs",
    ),
    "no URL of metrics": (
        ["emulate", "--hpa-metrics", "prometheus"],
        2,
        "'--hpa-metrics': 'prometheus' is not a URL such as http://cart.shop/",
    ),
    "no folder of pods": (
        ["emulate", "--port", "0", "--run-pods", "file/x"],
        1,
        "file/x/logs: Not a directory",
    ),
    "too many pods": (
        ["bench", "footprint", "--nodes", "1", "--pods", "51"],
        2,
        "--pods: more than 50 for each node",
    ),
    "sizes of different length": (
        ["bench", "scale", "--nodes", "1,2", "--pods", "3"],
        2,
        "--nodes and --pods: not as many of the one as of the other",
    ),
    **{
        f"bench burst {typed}": (["bench", "burst", *typed.split()], 2, line)
        for typed, line in (
            ("--schedulers kubedsm,,D", "Invalid value for '--schedulers': a name is empty"),
            ("--policies kubedsm,none", "Invalid value for '--policies': no policy 'none'"),
            ("--policies random,random", "Invalid value for '--policies': 'random' is given twic"),
            ("-n 551", "the paper's five workers take 550 pods, not 551"),
            ("--policies kubedsm --keepalive 15", "--keepalive is about bare-loop"),
            ("--schedulers kubedsm", "--schedulers is for a real cluster, with --kubeconfig"),
            ("--context a", "--context is for a real cluster, with --kubeconfig"),
            ("--kubeconfig x --policies kubedsm", "--policies is not for a real cluster"),
            ("--kubeconfig x --keepalive 15", "--keepalive is not for a real cluster"),
        )
    },
    "a size of nothing": (
        ["bench", "scale", "--nodes", "1,0", "--pods", "3,4"],
        2,
        "Invalid value for '--nodes': '1,0' is no list of numbers from 1 up",
    ),
}


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
    "objective: {weight: rate}": ("objective.weight: 'rate' is not equal or traffic",),
    "solver: {kind: cplex}": ("solver.kind: 'cplex' is not",),
    "site: {demand: ingres-nginx}": ("is the name of no query; did you mean ingress-nginx?",),
    "preemption: true": ("preemption: true is not disabled or enabled", "quote it"),
    "kind: Deployment\napiVersion: apps/v1": ("this is a Deployment, not a configuration",),
    "nodes: [{name: e1}]": ("this is a file of nodes (for --cluster), not a configuration",),
}
NAMELESS = ("node/", "/", "shop/", "", " ")
#: commands, with the dump `d` of one node and one pod, and parts of the line
COMMANDS = {
    "stauts": "No such command 'stauts'. Did you mean status?",
    "chekc": "No such command 'chekc'. Did you mean check?",
    "status -n shop -A": "-n and -A: only one of them",
    "status -n A_b": "'A_b' is not a name of a namespace",
    "status -o tabel": "'tabel' is not one of",
    "status -w --interval often": "'often' is not a duration",
    "status": "kubeconfig none: no such file",
    "check --prr": "'--pre'",
    "check -o name": "'name' is not one of 'text', 'json', 'yaml'",
    "check --configmap kubedsm": "kubedsm is no namespace and name, such as kubedsm/kubedsm",
    "logs --tail some": "'some' is not a valid integer",
    "version --server nowhere": "nowhere is no address such as http://127.0.0.1:10270",
    "completion tcsh": "'tcsh' is not one of 'bash', 'zsh', 'fish'",
    "support-bundle --out a/": "kubeconfig none: no such file",
    "Explain x": "No such command 'Explain'. Did you mean explain?",
    "config chekc f": "No such command 'chekc'. Did you mean 'check'?",
    "run --dryrun": "No such option '--dryrun'. Did you mean '--dry-run'?",
    "suggest --form d": "No such option '--form'. Did you mean '--from'?",
    "run --leader-elect=maybe": "'maybe' is not true or false",
    "run --log-level warn": "Did you mean warning?",
    "run --log-format text": "'text' is not one of 'json', 'console'",
    "run --namespace A_b": "'A_b' is not a name of a namespace, such as kubedsm",
    "run --diagnostics-port http": "'http' is not a valid integer",
    "run --page-host a/b --page": "'a/b' is not a host's name, without a port",
    "run --page-history new": "--page-history is about --page or --page-address",
    "run --page-address 0.0.0.0:80": "--page-address beyond loopback needs --page-token-file",
    "run extra": "Got unexpected extra argument (extra)",
    "--kubeconfig none explain x": "kubeconfig none: no such file",
    "--kubeconfig none config check f": "No such option '--kubeconfig'",
    "--contxt c suggest": "No such option '--contxt'. Did you mean '--context'",
    "--context c suggest": "kubeconfig none: no such file",
    "explain x --kubeconfig k --context prod": "no context 'prod', only kubedsm-emulated",
    "explain": "name POD, NAMESPACE/POD",
    "explain x --all": "name POD, NAMESPACE/POD",
    "explain a/b/c": "a/b/c cannot be explained, a is no kind: name POD, NAMESPACE/POD",
    "explain deploymnt/shop/cart": "deploymnt is no kind; did you mean deployment?",
    **{f"explain {shlex.quote(name)}": f"{name!r} lacks a name: name POD" for name in NAMELESS},
    "explain pod x y": "pod x y cannot be explained: name POD",
    "explain Deployments.apps/cart --from d": "no deployment cart has pods",
    **{
        f"{command} --kubeconfig k": "connection refused; check that the API server runs, and that"
        for command in ("status", "check", "explain x", "suggest", "uninstall")
    },
    "explain shop/x -n web": "shop/x is not in namespace web",
    "explain --all -n shop -A": "-n and -A: only one of them",
    "explain x -n A_b": "'A_b' is not a name of a namespace",
    "explain x -o yml --from d": "'yml' is not one of",
    "explain x --server nowhere": "nowhere is no address such as http://127.0.0.1:10270",
    "explain pod/x --from d": "there is no pod x; `kubectl get pods -A` lists them",
    "explain crt --from d": "there is no pod crt; did you mean shop/cart?",
    "explain deplyment/cart --from d": "deplyment is no kind; did you mean deployment?",
    "explain deployment/cart --from d": "no deployment cart has pods with schedulerName: kubedsm",
    "explain pod/carts --from d": "there is no pod carts; did you mean shop/cart?",
    "explain node/e11 --from d": "there is no node e11; did you mean e1?",
    "explain node/zz --from d": "there is no node zz; `kubectl get nodes` lists them",
    "explain migration/x --from d": "only the scheduler that decided migration x can explain it",
    "explain decision/x --from d": "only the scheduler that decided decision x can explain it",
    "pack --from d --apply": "--apply needs a cluster, not a dump",
    "suggest --from d --apply": "--apply needs a cluster, not a dump",
    "suggest --from d --budget soon": "'soon' is not a duration, such as 500ms, 10s or 1m30s",
    "suggest --from none": "none: No such file or directory",
    "place --from d --config none": "none: No such file or directory",
    "approve": "Missing argument 'ID'",
    "approve zz": "zz is no id of a proposal, such as 3f2a91c0",
    "approve 12345678 --configmap kubedsm": "kubedsm is no namespace and name, such as kubedsm/k",
    "rbac --without moves": "'moves' is not one of 'surroundings'",
    "rbac --namespace A_b": "'A_b' is not a name of a namespace",
    "config show f --configmap a/b": "FILE and --configmap: only one of them",
    "config show none": "none: No such file or directory",
    "watch --token-file none": "none: No such file or directory",
    "emulate --cluster papr": "papr: no such file; did you mean paper?",
    "emulate --cluster egde": "egde: nodes[0].tier: 'egde' is not edge or cloud; did you",
    "emulate --cluster four": "four: nodes[0].cpu: 'four' is not a quantity, such as 500m, 2",
    "suggest --kubeconfig gone": "kubeconfig gone: no such file",
}
FILES = {
    "egde": "nodes: [{name: e1, tier: egde, cpu: 4, memory: 4Gi}]",
    "four": "nodes: [{name: e1, tier: edge, cpu: four, memory: 4Gi}]",
    "d": dumps.dump_of(dumps.node("e1", "edge"), dumps.pod("cart")).decode(),
}


def run_with_files(arguments, tmp_path, monkeypatch):
    """Run in a folder with files; an argument FILE:TEXT creates one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", "none")
    for name, text in {"file": "", **FILES}.items():
        write(tmp_path, name, text)
    unreachable(tmp_path).rename(tmp_path / "k")
    for at, (name, colon, text) in enumerate(each.partition(":") for each in arguments):
        if colon and name.isalpha() and len(name) == 1:
            write(tmp_path, name, text)
            arguments = [*arguments[:at], name, *arguments[at + 1 :]]
    return command_line.kubedsm(*arguments)


CASES = {
    **BAD,
    **{
        f"configuration {text}": (["config", "check", f"c:{text}"], 1, *says)
        for text, says in CONFIGURATIONS.items()
    },
    **{command: (shlex.split(command), None, says) for command, says in COMMANDS.items()},
}


@pytest.mark.parametrize("case", CASES)
def test_wrong_input_gets_one_line_and_an_exit_code(case, tmp_path, monkeypatch):
    arguments, code, *says = CASES[case]
    done = run_with_files(arguments, tmp_path, monkeypatch)
    assert done.returncode in ((1, 2) if code is None else (code,)), done.stderr
    if arguments[:2] == ["config", "check"] and not done.stderr:
        [line] = done.stdout.splitlines()
        assert line.startswith("c: ")
    else:
        assert done.stdout == ""
        *remarks, line = done.stderr.splitlines()
        assert line.startswith("kubedsm: error: ")
        assert not [remark for remark in remarks if not remark.startswith("kubedsm: ")]
    assert [text for text in says if text not in line] == [], line


def test_there_are_120_wrong_inputs():
    assert len(CASES) >= 120
