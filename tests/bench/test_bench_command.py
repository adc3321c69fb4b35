"""`kubedsm bench` knows names and defaults without importing what they belong to."""

import subprocess
import sys

import pytest

from kubedsm_lab.bench.burst import bare_loop
from kubedsm_lab.bench.soak.tenants import ODDITIES
from kubedsm_lab.cli import bench


def test_names_and_defaults_are_those_of_the_benchmarks():
    assert tuple(ODDITIES) == bench.ODDITIES
    [keepalive] = (each for each in bench.burst.params if each.name == "keepalive")
    assert keepalive.default == bare_loop.FOREVER


@pytest.mark.parametrize("name", bench.bench.list_commands(None))
def test_the_list_of_commands_shows_whole_summaries(name):
    command = bench.bench.get_command(None, name)
    assert not command.get_short_help_str(62).endswith("...")


def test_help_imports_no_benchmark():
    asked = (
        "import sys, click; from kubedsm_lab.cli.bench import bench;"
        "bench.main(['--help'], standalone_mode=False);"
        "print(*(name for name in sys.modules if name.startswith('kubedsm_lab.bench')))"
    )
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("\n\n")
