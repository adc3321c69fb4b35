"""Directory of a replay's report: results.json, tables.md, plots, and an HTML page with embedded
plots.

The page is self-contained. The style adapts to light and dark themes, narrow screens and paper.
"""

import re
from collections.abc import Mapping
from html import escape
from pathlib import Path

from markdown_it import MarkdownIt

from kubedsm.terminal.whole_files import write_whole
from kubedsm_lab.replay.plots import COLOURS, split_picture

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
.scroll + ul { font-size: 0.85rem; color: var(--faint); padding-left: 1.1rem; columns: 24rem;
               margin-bottom: 1.5rem; max-width: none; }
.scroll + ul li { break-inside: avoid; }
.scroll + ul strong { color: var(--ink); }
code { font-size: 0.9em; background: var(--shade); padding: 0 0.2rem; border-radius: 3px; }
pre { background: var(--shade); padding: 0.7rem; border-radius: 5px; overflow-x: auto; }
pre code { user-select: all; background: none; padding: 0; }
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
  figure { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
"""
_LIGHT, _DARK = (
    "".join(f"--c{index}: {both[theme]};" for index, both in enumerate(COLOURS)) for theme in (0, 1)
)
#: colours of the policies, as the pictures refer to them
_COLOURS = (
    f":root {{{_LIGHT}}}\n@media screen and (prefers-color-scheme: dark) {{ :root {{{_DARK}}} }}\n"
)
#: Markdown renderer with tables, and without raw HTML
_MARKDOWN = MarkdownIt("js-default")
_COMMENT = re.compile(r"^<!--.*?-->\n", re.DOTALL | re.MULTILINE)


def write_report(
    out: Path,
    title: str,
    text: str,
    results: bytes,
    pictures: Pictures,
) -> None:
    """Write all files of a report into an existing directory; `text` is Markdown.

    Raises OSError.
    """
    write_whole(out / "tables.md", text)
    write_whole(out / RESULTS, results)
    for name, content in pictures.items():
        write_whole(out / name, content)
    write_whole(out / "index.html", render_page(title, text, pictures))


def render_page(title: str, text: str, pictures: Pictures | None = None) -> str:
    """Render a replay's report as an HTML page; `text` is Markdown without heading.

    Pictures stand between the text's opening and its chapters, or at the end if the text has no
    opening. Tables scroll sideways on a narrow screen.
    """
    figures = "\n".join(map(_render_figure, (pictures or {}).values()))
    body = _MARKDOWN.render(_COMMENT.sub("", text))
    body = body.replace("<table>", '<div class="scroll"><table>')
    body = body.replace("</table>", "</table></div>")
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


def _render_figure(content: bytes) -> str:
    title, about, drawing = split_picture(content)
    return (
        f"<figure><figcaption><b>{escape(title)}</b>{escape(about)}</figcaption>"
        f"<div>{drawing}</div></figure>"
    )
