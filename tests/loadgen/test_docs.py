"""docs/loadgen.md has the options that there are, each at its command."""

import re
from pathlib import Path

import pytest

from loadgen.cli import loadgen

TEXT = (Path(__file__).parents[2] / "docs" / "loadgen.md").read_text(encoding="utf-8")
#: by the sentence that is before its table
COMMANDS = {
    "generate wavy": "**`generate wavy BASE SERVICES`**",
    "run": "`loadgen run SCENARIO` sends",
    "closed": "`loadgen closed CLIENTS --url URL` is",
    "hpa": "`loadgen hpa --url URL` is",
    "serve": "`loadgen serve` answers",
}


def options(command):
    found = loadgen
    for name in command.split():
        found = found.get_command(None, name)
    return {name for option in found.params for name in option.opts if name.startswith("--")}


@pytest.mark.parametrize("command", COMMANDS)
def test_the_table_of_a_command_has_options_that_it_has(command):
    rows = TEXT.partition(COMMANDS[command])[2].partition("|---|")[2].partition("\n\n")[0]
    told = {name for row in rows.splitlines() for name in re.findall(r"`(--[a-z0-9-]+)", row[:60])}
    assert told
    assert told <= options(command)


def test_serve_has_all_of_its_options_in_its_table():
    rows = TEXT.partition(COMMANDS["serve"])[2].partition("|---|")[2].partition("\n\n")[0]
    assert options("serve") - {"--help"} <= set(re.findall(r"--[a-z0-9-]+", rows))
