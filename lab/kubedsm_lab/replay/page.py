"""Report folder: results.json, tables.md, the pictures, and one HTML page that embeds them all.

The page needs no other file. It adapts to light and dark themes, narrow screens and paper.
"""

import re
from collections.abc import Iterable, Mapping
from html import escape, unescape
from pathlib import Path

from markdown_it import MarkdownIt

from kubedsm.terminal.whole_files import write_whole
from kubedsm_lab.replay.plots import COLOURS, Look, assign_looks, split_picture

RESULTS = "results.json"
#: SVG files by name
Pictures = Mapping[str, bytes]


_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --faint: #59636e; --rule: #d9dee3;
        --ground: #fff; --shade: #f3f5f7; }
@media screen and (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ec; --faint: #a3acb5; --rule: #3a424a; --ground: #15181c; --shade: #20252a; }
}
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 78rem;
       padding: 0 1rem; color: var(--ink); background: var(--ground); overflow-wrap: break-word; }
h1 { font-size: 1.2rem; color: var(--faint); font-weight: 600; margin: 0; }
h2 { margin: 2.5rem 0 0.5rem; font-size: 1.3rem; }
h1 + p > strong:only-child { font-size: 1.6rem; line-height: 1.3; font-weight: 650; }
p, li { max-width: 46rem; }
.scroll { overflow-x: auto; margin: 1rem 0 0.5rem; }
table { border-collapse: separate; border-spacing: 0; font-size: 0.9rem;
        font-variant-numeric: tabular-nums; }
th, td { padding: 0.25rem 0.6rem; border-bottom: 1px solid var(--rule); text-align: left;
         vertical-align: top; }
th { vertical-align: bottom; font-weight: 600; }
td[style*="right"] { white-space: nowrap; }
th:first-child, td:first-child { position: sticky; left: 0; background: var(--ground);
                                 padding-left: 0; }
abbr { text-decoration: underline dotted var(--faint); text-underline-offset: 3px; cursor: help; }
.scroll + ul { font-size: 0.85rem; color: var(--faint); padding-left: 1.1rem; columns: 24rem;
               margin-bottom: 1.5rem; max-width: none; }
.scroll + ul li { break-inside: avoid; }
.scroll + ul strong { color: var(--ink); }
code { font-size: 0.9em; background: var(--shade); padding: 0 0.2rem; border-radius: 3px; }
pre { background: var(--shade); padding: 0.7rem; border-radius: 5px; overflow-x: auto; }
pre code { user-select: all; background: none; padding: 0; }
.whole { white-space: nowrap; }
.swatch { display: inline-block; width: 14px; height: 10px; margin-right: 0.45rem;
          --line: var(--ground) 0 1px, transparent 1px 4px; }
.hatch1 { background-image: repeating-linear-gradient(-45deg, var(--line)); }
.hatch2 { background-image: repeating-linear-gradient(45deg, var(--line)); }
.hatch3, .hatch5 { background-image: repeating-linear-gradient(90deg, var(--line)); }
.hatch4 { background-image: repeating-linear-gradient(0deg, var(--line)); }
.hatch5 { border: 1px double var(--ground); }
figure { margin: 2.5rem 0; }
figure div { overflow-x: auto; }
figcaption { max-width: 46rem; color: var(--faint); font-size: 0.9rem; margin-bottom: 0.8rem; }
figcaption b { display: block; color: var(--ink); font-size: 1.3rem; }
@media print {
  body { font-size: 10pt; margin: 0; max-width: none; }
  .scroll { overflow: visible; }
  pre { white-space: pre-wrap; }
  table { font-size: 7.5pt; }
  th, td { padding: 0.15rem 0.35rem; }
  tr, .scroll + ul li { break-inside: avoid; }
  figure svg { width: 100%; height: auto; }
  h2, figcaption { break-after: avoid; break-inside: avoid; }
  th:first-child, td:first-child { position: static; }
  figure, .swatch { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
"""
_LIGHT, _DARK = (
    "".join(f"--c{index}: {both[theme]};" for index, both in enumerate(COLOURS)) for theme in (0, 1)
)
#: colours of the policies, as the pictures refer to them
_COLOURS = (
    f":root {{{_LIGHT}}}\n@media screen and (prefers-color-scheme: dark) {{ :root {{{_DARK}}} }}\n"
)
#: letters of a name that is not broken
_WHOLE = 24
#: tables, but no HTML of the text's own
_MARKDOWN = MarkdownIt("js-default")
_COMMENT = re.compile(r"^<!--.*?-->\n", re.DOTALL | re.MULTILINE)
_TABLE = re.compile(r"(<table>.*?</table>)(\s*<ul>.*?</ul>)?", re.DOTALL)
_MEANT = re.compile(r"<li><strong>(.*?)</strong>: (.*?)</li>")
_HEADING = re.compile(r"(<th[^>]*>)(.*?)(</th>)")
_CELL = re.compile(r"(<t[hd][^>]*>)([^<]*)")


def write_report(
    out: Path,
    title: str,
    text: str,
    results: bytes,
    pictures: Pictures | None = None,
    policies: Iterable[str] = (),
) -> None:
    """Write all files of a report into an existing folder. text: Markdown. Raises OSError."""
    write_whole(out / "tables.md", text)
    write_whole(out / RESULTS, results)
    for name, content in (pictures or {}).items():
        write_whole(out / name, content)
    write_whole(out / "index.html", render_page(title, text, pictures, policies))


def render_page(
    title: str,
    text: str,
    pictures: Pictures | None = None,
    policies: Iterable[str] = (),
) -> str:
    """text: Markdown without a heading of its own.

    Pictures stand between the opening of the text and its chapters, or at the end if the text has
    no opening. Table cells that name one of the policies get the colour of the pictures.
    """
    figures = "\n".join(map(_figure, (pictures or {}).values()))
    html = _explain_headings(_MARKDOWN.render(_COMMENT.sub("", text)))
    body = _mark_policies(html, assign_looks(policies))
    opening, heading, chapters = body.partition("<h2>")
    parts = (opening, figures, heading, chapters) if opening else (body, figures)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{_STYLE}{_COLOURS}</style>
</head>
<body>
<h1>{escape(title)}</h1>
{"".join(parts)}
</body>
</html>
"""


def _explain_headings(html: str) -> str:
    """Make tables scrollable, and explain each heading by the last legend that has its words."""
    known: dict[str, str] = {}

    def explain(found: re.Match[str]) -> str:
        opening, words, closing = found.groups()
        if words not in known:
            return found[0]
        return f'{opening}<abbr title="{known[words]}">{words}</abbr>{closing}'

    def wrap(found: re.Match[str]) -> str:
        table, below = found.groups(default="")
        known.update((words, escape(unescape(said))) for words, said in _MEANT.findall(below))
        return f'<div class="scroll">{_HEADING.sub(explain, table)}</div>{below}'

    return _TABLE.sub(wrap, html)


def _mark_policies(html: str, looks: Mapping[str, Look]) -> str:
    """Put a swatch before the policy that a cell names, alone or before a comma."""

    def mark(found: re.Match[str]) -> str:
        opening, words = found.groups()
        look = looks.get(unescape(words)) or looks.get(unescape(words).partition(",")[0])
        if look is None:
            return found[0]
        whole = ' class="whole"' if len(words) <= _WHOLE else ""
        swatch = (
            f'<span class="swatch hatch{look.pattern}"'
            f' style="background-color: var(--c{look.colour})"></span>'
        )
        return f"{opening}<span{whole}>{swatch}{words}</span>"

    return _CELL.sub(mark, html) if looks else html


def _figure(content: bytes) -> str:
    title, about, drawing = split_picture(content)
    return (
        f"<figure><figcaption><b>{escape(title)}</b>{escape(about)}</figcaption>"
        f"<div>{drawing}</div></figure>"
    )
