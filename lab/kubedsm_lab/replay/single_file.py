"""Dashboard with embedded recordings, as a single HTML file without a server.

The files of the page are inlined. Modules find each other by the import map, because a module in a
data: URL has no folder.
"""

import base64
import gzip
import hashlib
import re
from collections.abc import Iterator, Mapping
from html import escape
from mimetypes import guess_type
from urllib.parse import quote

import orjson

from kubedsm.dashboard.server.app import read_static_files

#: the entry module, and the prefix of all modules in the import map
_FIRST, _PREFIX = "recorded.js", "page/"
_IMPORT = re.compile(r'\b(from|import) "\./([a-z_./-]+)"')
_SHEET = re.compile(r'<link rel="stylesheet" href="page/([a-z_.-]+)">\n')
_ICON = re.compile(r'<link rel="icon" href="page/([a-z_.-]+)">')
_MODULE = re.compile(r'<script type="module" src="page/[a-z_.-]+"></script>')
_TITLE = re.compile(r"<title>.*?</title>")
#: permitted unescaped characters of a data: URL in a script
_AS_IT_IS = " !$'()*+,-./:;=?@[]^_`{|}~&"


def one_file(title: str, about: str, recordings: Mapping[str, bytes]) -> str:
    """Render the dashboard with embedded recordings, messages in lines by title, as one HTML file;
    about: short description.
    """
    contents = read_static_files()
    head = contents["index.html"].decode()
    sheets = "".join(contents[name].decode() for name in _SHEET.findall(head))
    modules = orjson.dumps({"imports": dict(_list_modules(contents))}).decode()
    first = f'import "{_PREFIX}{_FIRST}";'
    data = "\n".join(
        f'<script type="application/gzip" data-title="{escape(name)}">'
        f"{_pack_messages(messages)}</script>"
        for name, messages in recordings.items()
    )
    scripts = f"""<style>{sheets}</style>
<script type="importmap">{modules}</script>
{data}
<script type="module">{first}</script>"""
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:;"
        f" style-src {_hash_text(sheets)};"
        f" script-src data: {_hash_text(modules)} {_hash_text(first)}"
    )
    said = (
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f"<title>{escape(title)}</title>\n"
        f'<meta name="description" content="{escape(about)}">'
    )
    head = _SHEET.sub("", head)
    head = _ICON.sub(lambda icon: _embed_icon(icon[1], contents), head)
    head = _TITLE.sub(lambda _: said, head)
    return _MODULE.sub(lambda _: scripts, head)


def _list_modules(contents: Mapping[str, bytes]) -> Iterator[tuple[str, str]]:
    """Yield the entry JavaScript module and all modules it imports, by import-map name."""
    found, known = [_FIRST], {_FIRST}
    for name in found:
        text = contents[name].decode()
        new = [imported for _, imported in _IMPORT.findall(text) if imported not in known]
        known.update(new)
        found += new
        text = _IMPORT.sub(rf'\1 "{_PREFIX}\2"', text)
        yield f"{_PREFIX}{name}", f"data:text/javascript;charset=utf-8,{quote(text, _AS_IT_IS)}"


def _embed_icon(name: str, contents: Mapping[str, bytes]) -> str:
    kind, data = guess_type(name)[0], base64.b64encode(contents[name]).decode()
    return f'<link rel="icon" href="data:{kind};base64,{data}">'


def _pack_messages(messages: bytes) -> str:
    # Reproducible output: without the modification time.
    return base64.b64encode(gzip.compress(messages, mtime=0)).decode()


def _hash_text(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
