"""A report as one HTML page that needs nothing else."""

import base64
from collections.abc import Mapping
from html import escape

from markdown_it import MarkdownIt

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem;
       color: #1a1a1a; background: #fff; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 0.9rem;
        display: block; overflow-x: auto; }
th, td { padding: 0.2rem 0.7rem; border-bottom: 1px solid #ddd; text-align: left;
         vertical-align: top; }
code { font-size: 0.9em; background: #f3f3f3; padding: 0 0.2rem; }
pre { overflow-x: auto; background: #f3f3f3; padding: 0.5rem; }
img { max-width: 100%; height: auto; }
figure { margin: 2rem 0; }
figcaption { color: #555; }
"""
#: no HTML of its own, and tables
_MARKDOWN = MarkdownIt("js-default")


def page(title: str, text: str, pictures: Mapping[str, bytes] | None = None) -> str:
    """text: Markdown, without a heading of its own. pictures: PNG files by name, after it."""
    figures = "\n".join(_figure(name, content) for name, content in (pictures or {}).items())
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
{_MARKDOWN.render(text)}
{figures}
</body>
</html>
"""


def _figure(name: str, content: bytes) -> str:
    caption = escape(name.removesuffix(".png").replace("-", " "))
    data = base64.b64encode(content).decode()
    return (
        f'<figure><img alt="{caption}" src="data:image/png;base64,{data}">'
        f"<figcaption>{caption}</figcaption></figure>"
    )
