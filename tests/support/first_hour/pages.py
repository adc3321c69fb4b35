"""Fenced blocks of a Markdown page, and the marks that say how each is checked.

A mark is a comment right above a block, invisible on the rendered page:

    <!-- not run: REASON -->        do not run the block
    <!-- background: TEXT -->       run in the background; continue once TEXT is in the output
    <!-- exit code: N -->           the block's one failing command exits with N
    <!-- output -->                 output of the previous block; `...` stands for any text
    <!-- file: NAME -->             write the block to this file
    <!-- first: SCRIPT -->          shell commands to run before, such as starting a cluster
    <!-- within: SECONDS -->        time limit, if above a minute

A block of `sh` needs no mark; a block without language needs one.
"""

import re
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
    def is_command(self):
        return self.language == "sh" and "not run" not in self.marks

    @property
    def runs(self):
        """Return whether following the block runs a command, or writes a file."""
        return self.is_command or not {"first", "file"}.isdisjoint(self.marks)

    @property
    def within(self):
        """Return the time limit in seconds."""
        return float(self.marks.get("within") or WITHIN)

    @property
    def takes_kubectl(self):
        """Return whether the block needs kubectl, directly or by a script of this folder."""
        first = self.marks.get("first", "")
        return "/first_hour/" in first or "kubectl" in (first + self.text) * self.is_command

    @property
    def wrong(self):
        """Return why the marks are contradictory or incomplete; "" if they are valid."""
        if "not run" in self.marks and not self.marks["not run"]:
            return "not run without a reason"
        if not self.language and not {"output", "not run"} & self.marks.keys():
            return "neither a language, nor marked as output or as not run"
        return ""


def blocks(page):
    """Yield the fenced blocks of a page, in order."""
    marks = {}
    for token in MarkdownIt("commonmark").parse(page.read_text(encoding="utf-8")):
        if token.type == "html_block":
            marks |= {name: said or "" for name, said in COMMENT.findall(token.content)}
        elif token.type == "fence" and token.map is not None:
            yield Block(page, token.map[0] + 1, token.info.strip(), token.content, marks)
            marks = {}
        elif token.type == "inline":
            marks = {}


def matches(shown, came):
    """Return whether the shown text matches some of the output's lines; `...` matches any text."""
    parts = (re.escape(part) for part in _plain(shown).split("..."))
    lines = rf"^{'.*?'.join(parts)}$"
    return re.search(lines, _plain(came), re.DOTALL | re.MULTILINE) is not None


def _plain(text):
    """Remove trailing spaces of all lines."""
    return "\n".join(line.rstrip() for line in text.strip().splitlines())
