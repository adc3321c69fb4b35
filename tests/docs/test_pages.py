"""Pages for people: links lead somewhere, names and commands exist, no page is long."""

import pkgutil
import re
from functools import cache
from pathlib import Path

import click
import pytest
import yaml
from markdown_it import MarkdownIt

from kubedsm.cli.main import commands
from loadgen.cli import loadgen

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "k3s-lab/README.md")),
    *sorted(DOCS.rglob("*.md")),
]
LINK = re.compile(r"\]\((?!\w+:)([^)\s#]*)(?:#([^)\s]+))?\)")
CODE = re.compile(r"^( *)```.*?^\1```|`[^`\n]+`", re.MULTILINE | re.DOTALL)
#: a command of ours as it is typed, on lines that backslashes join
TYPED = re.compile(r"\b(kubedsm|loadgen) ((?:[^`\n#|&;>]|\\\n)*)")
PROGRAMS = {"kubedsm": commands, "loadgen": loadgen}
OPTION = re.compile(r"(?<!\S)--[a-z][a-z-]*")
NAME = re.compile(r"`((?:kubedsm|kubedsm_lab|plans|loadgen)(?:\.\w+)+)`")
#: a module of ours or another that a shown command runs
RUN = re.compile(r"\bpython3? -m ([\w.]+)")
PATH = re.compile(
    r"`((?!\S*NAME)(?:kubedsm|lab|plans|loadgen|docs|tests|manifests|k3s-lab)/[\w./-]+)`"
)
SCRIPT = re.compile(r"\.(?:ci|github)/[\w./-]*\w")
TEXTS = "\n".join(page.read_text() for page in PAGES)

by_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def anchors(page):
    """Return the fragment ids of a page's headings, as GitHub and MkDocs form them."""
    tokens = MarkdownIt("commonmark").parse(page.read_text())
    titles = (
        tokens[at + 1].content for at, each in enumerate(tokens) if each.type == "heading_open"
    )
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@by_page
def test_links_lead_somewhere(page):
    text = re.sub(r"^( *)```.*?^\1```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target, anchor in LINK.findall(text):
        to = (page.parent / target).resolve() if target else page
        assert to.exists(), target
        assert not (DOCS in page.parents and DOCS not in to.parents), f"{target} is not in docs"
        if anchor:
            assert anchor in anchors(to), f"{target}#{anchor}"


@cache
def commands_of(group):
    """Return the commands of a group by name: `kubedsm` searches installed packages for them."""
    names = group.list_commands(None) if isinstance(group, click.Group) else ()
    return {name: group.get_command(None, name) for name in names}


def typed(page):
    """Yield the options of each shown command, the shown ones, and its text."""
    for code in CODE.finditer(page.read_text()):
        for program, said in TYPED.findall(code[0]):
            command, words = PROGRAMS[program], said.replace("\\\n", " ").split()
            # Other words are names: a namespace, a Job.
            if words and words[0] in commands_of(command):
                yield options(command, words), set(OPTION.findall(said)), f"{program} {said}"


def options(command, words):
    found = {"--help"}
    for word in ("", *words):
        if word:
            if word not in commands_of(command):
                break
            command = commands_of(command)[word]
        found |= {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
    return found


@by_page
def test_a_shown_command_has_its_options(page):
    assert [said for there, named, said in typed(page) if not named <= there] == []


ROWS = [
    line
    for line in (DOCS / "explanation/papers.md").read_text().splitlines()
    if re.match(r"\| [^|]+ \| (`(kubedsm|loadgen) |not )", line)
]


@pytest.mark.parametrize("row", ROWS)
def test_a_row_of_the_papers_has_a_command_that_parses_or_a_reason(row):
    _, _, how, result, _ = (cell.strip() for cell in row.split("|"))
    assert result
    if not how.startswith("not "):
        program, *words = how.strip("`").split()
        parse(PROGRAMS[program], words)


def parse(command, words):
    """Parse words as the program does, without running a command."""
    while isinstance(command, click.Group):
        name, *words = words
        command = command.get_command(None, name)
    with command.make_context(command.name, words):
        pass


def test_each_paper_has_rows():
    assert len(ROWS) >= 25


@by_page
def test_a_page_has_at_most_200_lines(page):
    assert len(page.read_text().splitlines()) <= 200


@pytest.mark.parametrize("name", sorted({*NAME.findall(TEXTS), *RUN.findall(TEXTS)}))
def test_a_name_is_found_in_the_code(name):
    pkgutil.resolve_name(name)


@pytest.mark.parametrize("path", sorted({*PATH.findall(TEXTS), *SCRIPT.findall(TEXTS)}))
def test_a_path_exists(path):
    assert (ROOT / path).exists()


def test_the_index_and_the_navigation_have_every_page():
    pages = {page for page in PAGES if DOCS in page.parents}
    linked = {
        (DOCS / target).resolve() for target, _ in LINK.findall((DOCS / "README.md").read_text())
    }
    assert pages - linked == {DOCS / "README.md"}
    text = re.sub(r"!!python/name:\S+", "", (ROOT / "mkdocs.yml").read_text())
    assert set(re.findall(r"[\w/-]+\.md", yaml.safe_dump(yaml.safe_load(text)["nav"]))) == {
        str(page.relative_to(DOCS)) for page in pages
    }
