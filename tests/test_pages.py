"""The pages for people: each is in the index, links lead somewhere, options are there."""

import re
from pathlib import Path

import click
import pytest
from markdown_it import MarkdownIt

from kubedsm.cli.main import commands
from loadgen.cli import loadgen

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md")), ROOT / "k3s-lab" / "README.md"]
LINK = re.compile(r"\]\((?!\w+:)([^)\s#]*)(?:#([^)\s]+))?\)")
CODE = re.compile(r"^( *)```.*?^\1```|`[^`\n]+`", re.MULTILINE | re.DOTALL)
#: a command of ours as it is typed, on lines that backslashes join
TYPED = re.compile(r"\b(kubedsm|loadgen) ((?:[^`\n#|&;>]|\\\n)*)")
PROGRAMS = {"kubedsm": commands, "loadgen": loadgen}
OPTION = re.compile(r"(?<!\S)--[a-z][a-z-]*")


def anchors(page):
    """What GitHub calls the page's headings."""
    tokens = MarkdownIt("commonmark").parse(page.read_text())
    titles = (
        tokens[at + 1].content for at, each in enumerate(tokens) if each.type == "heading_open"
    )
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    text = re.sub(r"^( *)```.*?^\1```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target, anchor in LINK.findall(text):
        to = (page.parent / target).resolve() if target else page
        assert to.exists(), target
        if anchor:
            assert anchor in anchors(to), f"{target}#{anchor}"


def test_every_page_is_in_the_index():
    index = {
        (DOCS / target).resolve() for target, _ in LINK.findall((DOCS / "README.md").read_text())
    }
    assert [page for page in PAGES if page not in index and page != DOCS / "README.md"] == []


def typed(page):
    """Our commands that the page shows: what may be asked of each, and what is said."""
    for code in CODE.finditer(page.read_text()):
        for program, said in TYPED.findall(code[0]):
            command, words = PROGRAMS[program], said.replace("\\\n", " ").split()
            # What is not a command is the name of something: a namespace, a Job.
            if words and words[0] in command.list_commands(None):
                yield options(command, words), set(OPTION.findall(said)), f"{program} {said}"


def options(command, words):
    found = {"--help"}
    for word in ("", *words):
        if word:
            if not isinstance(command, click.Group) or word not in command.list_commands(None):
                break
            command = command.get_command(None, word)
        found |= {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_command_that_is_shown_has_its_options(page):
    assert [said for there, named, said in typed(page) if not named <= there] == []
