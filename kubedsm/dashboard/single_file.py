"""The page with films in it, as one HTML file: it needs no server, and asks for nothing.

What the page is made of is the same as what is served: its head with all that it refers to put in
its place. A module finds another by the import map, for one in a data: URL has no folder.
"""

import base64
import gzip
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from mimetypes import guess_type
from typing import NamedTuple
from urllib.parse import quote

import orjson

from kubedsm.dashboard.server.app import served_files

#: the module that is run, and what comes before the names of all in the import map
_FIRST, _PREFIX = "recorded.js", "page/"
_IMPORT = re.compile(r'\b(from|import) "\./([a-z_./-]+)"')
_SHEET = re.compile(r'<link rel="stylesheet" href="page/([a-z_.-]+)">\n')
_ICON = re.compile(r'<link rel="icon" href="page/([a-z_.-]+)">')
_MODULE = re.compile(r'<script type="module" src="page/[a-z_.-]+"></script>')
_TITLE = re.compile(r"<title>.*?</title>")
#: what a data: URL may have as it is, in a script of a page, too
_AS_IT_IS = " !$'()*+,-./:;=?@[]^_`{|}~&"


class Recorded(NamedTuple):
    """A film, and what is said above it."""

    title: str
    #: messages, one a line
    film: bytes


def one_file(title: str, about: str, films: Sequence[Recorded]) -> str:
    """about: a sentence on what is seen."""
    contents = served_files()
    head = contents["index.html"].decode()
    sheets = "".join(contents[name].decode() for name in _SHEET.findall(head))
    modules = orjson.dumps({"imports": dict(_modules(contents))}).decode()
    first = f'import "{_PREFIX}{_FIRST}";'
    data = "\n".join(
        f'<script type="application/gzip" data-title="{escape(title)}">{_packed(film)}</script>'
        for title, film in films
    )
    scripts = f"""<style>{sheets}</style>
<script type="importmap">{modules}</script>
{data}
<script type="module">{first}</script>"""
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:;"
        f" style-src {_hash(sheets)}; script-src data: {_hash(modules)} {_hash(first)}"
    )
    said = (
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f"<title>{escape(title)}</title>\n"
        f'<meta name="description" content="{escape(about)}">'
    )
    head = _SHEET.sub("", head)
    head = _ICON.sub(lambda icon: _icon(icon[1], contents), head)
    head = _TITLE.sub(lambda _: said, head)
    return _MODULE.sub(lambda _: scripts, head)


def _modules(contents: Mapping[str, bytes]) -> Iterator[tuple[str, str]]:
    """By the names in the import map, those that the first one imports, and those that they do."""
    found, known = [_FIRST], {_FIRST}
    for name in found:
        text = contents[name].decode()
        new = [imported for _, imported in _IMPORT.findall(text) if imported not in known]
        known.update(new)
        found += new
        text = _IMPORT.sub(rf'\1 "{_PREFIX}\2"', text)
        yield f"{_PREFIX}{name}", f"data:text/javascript;charset=utf-8,{quote(text, _AS_IT_IS)}"


def _icon(name: str, contents: Mapping[str, bytes]) -> str:
    kind, data = guess_type(name)[0], base64.b64encode(contents[name]).decode()
    return f'<link rel="icon" href="data:{kind};base64,{data}">'


def _packed(film: bytes) -> str:
    # Without the time of day, so that the same films are the same file.
    return base64.b64encode(gzip.compress(film, mtime=0)).decode()


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
