"""What commands are called with is told apart from what they do: both must be of one mind."""

import ast
import inspect
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import click
import pytest

from kubedsm import command_line
from kubedsm.app.leader_election import LeaseTimes
from kubedsm.cli import commands
from kubedsm.commands.options import DIAGNOSTICS_PORT, LOOPBACK, leader_election, page
from kubedsm.explain import server
from kubedsm.kube.calls.leases import LeaseName
from kubedsm.solvers.available import LIBRARIES
from kubedsm_lab.bench import footprint
from kubedsm_lab.bench.burst import bare_loop, contenders
from kubedsm_lab.bench.burst.policy_process import BATCHED
from kubedsm_lab.bench.soak.oddities import ODDITIES
from kubedsm_lab.bench.soak.run import ODD_PODS
from kubedsm_lab.chaos.workloads import WORKLOADS
from kubedsm_lab.command_line import bench, chaos, compare, replay
from kubedsm_lab.command_line.benching import bursts, processes, soaking
from kubedsm_lab.comparison.experiments import EXPERIMENTS
from kubedsm_lab.replay.variants import CONTENDERS
from support.command_line import kubedsm

ROOT = Path(command_line.__path__[0])
THIN = sorted(ROOT.glob("[a-z]*.py"))
BENCHING = sorted(ROOT.glob("benching/[a-z]*.py"))


def carried_out():
    """Each command with the function that it passes its options on to."""
    for path in [*THIN, *BENCHING]:
        within = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        module = import_module(f"kubedsm.command_line.{within}")
        for function in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(function, ast.FunctionDef) and len(function.body) > 2:
                _, brought, *_, called = function.body
                command = getattr(module, function.name)
                if isinstance(brought, ast.ImportFrom) and isinstance(command, click.Command):
                    does = import_module(f"{brought.module}.{brought.names[0].name}")
                    yield command, getattr(does, called.value.func.attr)


def test_what_is_done_takes_what_can_be_said():
    together = {
        name: {option.name for option in click.command()(options(lambda: None)).params}
        for name, options in (("elect", leader_election), ("page", page("")))
    }
    found = list(carried_out())
    assert len(found) > len(THIN) + len(BENCHING)
    for command, function in found:
        said = {option.name for option in command.params}
        taken = inspect.signature(function).parameters.values()
        named = {each.name for each in taken if each.kind is not each.VAR_KEYWORD}
        for each in taken:
            if each.kind is each.VAR_KEYWORD:
                named |= together[each.name]
        assert said - {"short"} == named, command.name


def test_names_and_defaults_are_those_of_what_they_are_of():
    assert tuple(WORKLOADS) == chaos.WORKLOADS
    assert tuple(each.name for each in EXPERIMENTS) == compare.EXPERIMENTS
    assert tuple(CONTENDERS) == replay.POLICIES
    assert (*LIBRARIES, "off") == replay.SOLVERS
    assert tuple(ODDITIES) == soaking.ODDITIES
    without = (name for name in contenders.NAMES if not name.endswith(BATCHED))
    assert tuple(without) == bursts.POLICIES
    assert (BATCHED, bare_loop.FOREVER) == (bursts.BATCHED, bursts.FOREVER)
    defaults = {each.name: each.default for each in (*soaking.soak.params, *processes.idle.params)}
    assert (defaults["odd_pods"], defaults["heartbeat"]) == (ODD_PODS, footprint.HEARTBEAT)
    assert (LOOPBACK, DIAGNOSTICS_PORT) == (server.LOOPBACK, server.PORT)
    context = click.command()(leader_election(lambda: None)).make_context("", [])
    times, lease = LeaseTimes(), LeaseName()
    assert context.params == {
        "leader_elect": True,
        "lease_duration": times.duration,
        "renew_deadline": times.renew_deadline,
        "retry_period": times.retry_period,
        "resource_namespace": lease.namespace,
        "resource_name": lease.name,
    }


def test_the_summaries_of_bench_are_those_of_its_commands():
    context = click.Context(bench.bench)
    for name in bench.bench.list_commands(context):
        found = bench.bench.get_command(context, name)
        assert bench._COMMANDS[name][1] == found.get_short_help_str(100)


def test_every_command_is_listed():
    assert [path.stem for path in THIN] == commands.list_commands(None)


@pytest.mark.parametrize(
    ("typed", "group"),
    [([], "kubedsm"), (["bench"], "kubedsm bench"), (["config"], "kubedsm config")],
)
def test_who_says_no_command_is_shown_which_there_are(typed, group):
    done = kubedsm(*typed)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Usage: {group} [OPTIONS] COMMAND")


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        (["sugest"], "No such command 'sugest'. Did you mean suggest? (see kubedsm --help)"),
        (["xyzzy"], "No such command 'xyzzy' (see kubedsm --help)"),
        (
            ["rbac", "--without", "migration"],
            (
                "Invalid value for '--without': 'migration' is not one of 'surroundings', 'events',"
                " 'tiers', 'migrations', 'preemption', 'pause', 'configuration', 'leader-election',"
                " 'requests', 'explain'. Did you mean migrations? (see kubedsm rbac --help)"
            ),
        ),
        (
            ["bench", "sook"],
            "No such command 'sook'. Did you mean soak? (see kubedsm bench --help)",
        ),
    ],
)
def test_who_mistypes_is_told_the_nearest(typed, line):
    done = kubedsm(*typed)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"kubedsm: error: {line}\n")


def test_ctrl_c_while_a_command_is_imported_is_one_line(monkeypatch):
    def interrupted(_):
        raise RuntimeError("__set_name__ of a class failed") from KeyboardInterrupt()

    monkeypatch.setattr("kubedsm.terminal.running.import_module", interrupted)
    done = kubedsm("place")
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "kubedsm: error: interrupted\n"


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
        " run(click.command()(lambda: rich.print('a table')), 'kubedsm', ())"
    )
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write) as nobody:
        done = subprocess.run(
            [sys.executable, "-c", code], check=False, stdout=nobody, stderr=subprocess.PIPE
        )
    assert (done.returncode, done.stderr) == (141, b"")
