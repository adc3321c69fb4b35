"""Commands of both distributions: their options, their functions, and how they end."""

import os
import subprocess
import sys

import click
import pytest

from kubedsm.app.leader_election import LeaseTimes
from kubedsm.cli.options import DIAGNOSTICS_PORT, LOOPBACK, leader_election
from kubedsm.explain import server
from kubedsm.kube.client.port import ObjectName
from kubedsm.solvers.available import LIBRARIES
from kubedsm_lab.chaos.workloads import WORKLOADS
from kubedsm_lab.cli import chaos, compare, replay
from kubedsm_lab.comparison.experiments import EXPERIMENTS
from support.command_line import kubedsm


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
