"""The fenced blocks of a Markdown page, and what is to become of each.

A comment right above a block says so; readers of the rendered page do not see it:

    <!-- not run: REASON -->        nothing is done with it
    <!-- background: TEXT -->       it goes on in the background, from when TEXT is in what it says
    <!-- exit code: N -->           its one failing command ends with N
    <!-- output -->                 it is what the block before it said; `...` stands for anything
    <!-- file: NAME -->             it is written to that file
    <!-- first: SCRIPT -->          what a shell does before, such as starting a cluster
    <!-- within: SECONDS -->        how long it may take, if that is more than a minute

A block of `sh` is run without one; one without a language must have one.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import attrs
from markdown_it import MarkdownIt

#: seconds that a block may take that does not say how long it takes
WITHIN = 60.0
COMMENT = re.compile(
    r"<!--\s*(not run|background|exit code|output|file|first|within)(?::\s*(.*?))?\s*-->", re.DOTALL
)


@attrs.frozen
class Block:
    page: Path
    #: of its fence, from 1
    line: int
    language: str
    text: str
    marks: dict[str, str]

    @property
    def is_command(self) -> bool:
        return self.language == "sh" and "not run" not in self.marks

    @property
    def within(self) -> float:
        """Seconds that it may take."""
        return float(self.marks.get("within") or WITHIN)

    @property
    def takes_kubectl(self) -> bool:
        """Whether it cannot be followed without: `cluster.sh` applies manifests with it."""
        first = self.marks.get("first", "")
        return "cluster.sh" in first or "kubectl" in (first + self.text) * self.is_command

    @property
    def wrong(self) -> str:
        """Why nobody knows what to do with it; empty if that is clear."""
        if "not run" in self.marks and not self.marks["not run"]:
            return "not run without a reason"
        if not self.language and not {"output", "not run"} & self.marks.keys():
            return "neither a language, nor marked as output or as not run"
        return ""


def blocks(page: Path) -> Iterator[Block]:
    """The page's fenced blocks, from top to bottom."""
    marks: dict[str, str] = {}
    for token in MarkdownIt("commonmark").parse(page.read_text(encoding="utf-8")):
        if token.type == "html_block":
            marks |= {name: said or "" for name, said in COMMENT.findall(token.content)}
        elif token.type == "fence" and token.map is not None:
            yield Block(page, token.map[0] + 1, token.info.strip(), token.content, marks)
            marks = {}
        elif token.type == "inline":
            marks = {}


def matches(shown: str, came: str) -> bool:
    """Whether what is shown is some of the lines that came; `...` stands for anything."""
    parts = (re.escape(part) for part in _plain(shown).split("..."))
    lines = rf"^{'.*?'.join(parts)}$"
    return re.search(lines, _plain(came), re.DOTALL | re.MULTILINE) is not None


def _plain(text: str) -> str:
    """Without spaces at ends of lines."""
    return "\n".join(line.rstrip() for line in text.strip().splitlines())
