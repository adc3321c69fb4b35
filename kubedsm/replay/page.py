"""A report as one HTML page that needs nothing else."""

import base64
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from kubedsm.replay.report import (
    EFFECT_HEADINGS,
    HEADINGS,
    SERVICE_HEADINGS,
    Report,
    effect_rows,
    how_measured,
    rows_of,
    service_rows,
)

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem;
       color: #1a1a1a; background: #fff; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 0.9rem; }
th, td { padding: 0.2rem 0.7rem; border-bottom: 1px solid #ddd; text-align: right; }
th:nth-child(-n+2), td:nth-child(-n+2) { text-align: left; }
div.scroll { overflow-x: auto; }
img { max-width: 100%; height: auto; }
figure { margin: 2rem 0; }
figcaption { color: #555; }
"""


def page(found: Report, pictures: Mapping[str, bytes], title: str) -> str:
    """pictures: PNG files by name."""
    figures = "\n".join(figure(name, content) for name, content in pictures.items())
    seeds = max(row["seeds"] for row in found["means"])
    how = how_measured(found)
    about = f"<p>Everything here was {how}; runs of each scenario and policy: {seeds}.</p>"
    tables = [
        html_table(HEADINGS, rows_of(found)),
        html_table(SERVICE_HEADINGS, service_rows(found)),
    ]
    if brought := effect_rows(found):
        tables.append(html_table(EFFECT_HEADINGS, brought))
    return document(title, "\n".join([about, *tables, figures]))


def document(title: str, body: str) -> str:
    """body: HTML."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>{escape(title)}</h1>
{body}
</body>
</html>
"""


def html_table(headings: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    body = "\n".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>" for line in lines
    )
    return f"""<div class="scroll">
<table>
<thead><tr>{head}</tr></thead>
<tbody>
{body}
</tbody>
</table>
</div>"""


def figure(name: str, content: bytes) -> str:
    caption = escape(name.removesuffix(".png").replace("-", " "))
    data = base64.b64encode(content).decode()
    return (
        f'<figure><img alt="{caption}" src="data:image/png;base64,{data}">'
        f"<figcaption>{caption}</figcaption></figure>"
    )
