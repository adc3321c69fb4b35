"""A report as one HTML page that needs nothing else: light or dark, wide or narrow, or on paper."""

import base64
import re
from collections.abc import Iterable, Mapping
from html import escape, unescape

from markdown_it import MarkdownIt

from kubedsm_lab.replay.charts.looks import Look, looks_of
from kubedsm_lab.replay.charts.panel import PATTERNS, STYLE, parts_of

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
.swatch { width: 14px; height: 10px; margin-right: 0.45rem; vertical-align: baseline; }
figure { margin: 2.5rem 0; }
figcaption { max-width: 46rem; color: var(--faint); font-size: 0.9rem; margin-bottom: 0.8rem; }
figcaption b { display: block; color: var(--ink); font-size: 1.3rem; }
.panels { display: flex; flex-wrap: wrap; gap: 1.2rem 1.6rem; align-items: flex-start; }
.panel { max-width: 100%; height: auto; }
img { max-width: 100%; height: auto; }
@media print {
  body { font-size: 10pt; margin: 0; max-width: none; }
  .scroll { overflow: visible; }
  pre { white-space: pre-wrap; }
  table { font-size: 7.5pt; }
  th, td { padding: 0.15rem 0.35rem; }
  .panel, tr, .scroll + ul li { break-inside: avoid; }
  h2, figcaption { break-after: avoid; break-inside: avoid; }
  th:first-child, td:first-child { position: static; }
  .chart, .swatch { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
"""
#: letters of a name that is not broken
_WHOLE = 24
#: no HTML of its own, and tables
_MARKDOWN = MarkdownIt("js-default")
#: what a page has for its readers' tools
_COMMENT = re.compile(r"^<!--.*?-->\n", re.DOTALL | re.MULTILINE)
_TABLE = re.compile(r"(<table>.*?</table>)(\s*<ul>.*?</ul>)?", re.DOTALL)
_MEANT = re.compile(r"<li><strong>(.*?)</strong>: (.*?)</li>")
_HEADING = re.compile(r"(<th[^>]*>)(.*?)(</th>)")
_CELL = re.compile(r"(<t[hd][^>]*>)([^<]*)")


def page(
    title: str,
    text: str,
    pictures: Mapping[str, bytes] | None = None,
    policies: Iterable[str] = (),
) -> str:
    """text: Markdown, without a heading of its own. pictures: SVG or PNG files by name.

    They stand between what opens the text and its chapters, or at the end if nothing opens it.
    policies: who has a colour wherever a cell names them, the same as in the pictures.
    """
    figures = "\n".join(_figure(name, content) for name, content in (pictures or {}).items())
    body = _with_looks(_with_meanings(_MARKDOWN.render(_COMMENT.sub("", text))), looks_of(policies))
    opening, heading, chapters = body.partition("<h2>")
    parts = (opening, figures, heading, chapters) if opening else (body, figures)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{_STYLE}{STYLE}</style>
</head>
<body>
<svg width="0" height="0" style="position:absolute" aria-hidden="true"><defs>{PATTERNS}</defs></svg>
<h1>{escape(title)}</h1>
{"".join(parts)}
</body>
</html>
"""


def _with_meanings(html: str) -> str:
    """Tables that a narrow page can scroll, and headings that say what the list below them says.

    Where there is no list, what the last one said.
    """
    known: dict[str, str] = {}

    def heading(found: re.Match[str]) -> str:
        opening, words, closing = found.groups()
        if words not in known:
            return found[0]
        return f'{opening}<abbr title="{known[words]}">{words}</abbr>{closing}'

    def made(found: re.Match[str]) -> str:
        table, below = found.groups(default="")
        known.update((words, escape(unescape(said))) for words, said in _MEANT.findall(below))
        return f'<div class="scroll">{_HEADING.sub(heading, table)}</div>{below}'

    return _TABLE.sub(made, html)


def _with_looks(html: str, looks: Mapping[str, Look]) -> str:
    """Before whoever is named first in a cell, alone or with what follows a comma."""

    def drawn(found: re.Match[str]) -> str:
        opening, words = found.groups()
        look = looks.get(unescape(words)) or looks.get(unescape(words).partition(",")[0])
        if look is None:
            return found[0]
        whole = ' class="whole"' if len(words) <= _WHOLE else ""
        return f"{opening}<span{whole}>{_swatch(look)}{words}</span>"

    return _CELL.sub(drawn, html) if looks else html


def _swatch(look: Look) -> str:
    whole = "M0 0H14V10H0Z"
    hatch = f'<path d="{whole}" fill="url(#hatch{look.pattern})"/>' if look.pattern else ""
    return (
        '<svg class="swatch" viewBox="0 0 14 10" aria-hidden="true">'
        f'<path class="f{look.colour}" d="{whole}"/>{hatch}</svg>'
    )


def _figure(name: str, content: bytes) -> str:
    if name.endswith(".svg"):
        title, about, panels = parts_of(content)
        return (
            f"<figure><figcaption><b>{escape(title)}</b>{escape(about)}</figcaption>"
            f'<div class="panels">{"".join(panels)}</div></figure>'
        )
    caption = escape(name.rpartition(".")[0].replace("-", " "))
    data = base64.b64encode(content).decode()
    return (
        f'<figure><img alt="{caption}" src="data:image/png;base64,{data}">'
        f"<figcaption>{caption}</figcaption></figure>"
    )
