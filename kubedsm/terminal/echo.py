"""Text for a terminal, with unprintable characters escaped.

Names, messages and annotations are untrusted. Control characters could move the cursor or clear the
screen; bidirectional and zero-width characters could disguise text.
"""

import json
import re
from collections.abc import Callable

import click

#: characters to check; newlines and tabs are layout
_UNUSUAL = re.compile(r"[^\n\t -~]")


def escape_unprintable(text: str) -> str:
    r"""Return the text with control, bidi, zero-width and other unprintable characters escaped.

    An escape is Python's, such as `\x1b` or `\u202e`. Newlines and tabs stay.
    """
    return _escape(text, _python_escape)


def escape_strings(document: bytes) -> bytes:
    r"""Return the JSON document with unprintable characters in strings displayed as `\u202e`.

    ASCII control characters remain JSON escapes.
    """
    escaped = _escape(document.decode(), lambda found: _python_escape(found).replace("\\", r"\\"))
    return escaped.encode()


def escape_json(document: bytes) -> bytes:
    r"""Return an equivalent JSON document with unprintable characters as JSON escapes."""
    return _escape(document.decode(), lambda found: json.dumps(found)[1:-1]).encode()


def _escape(text: str, escape: Callable[[str], str]) -> str:
    if text.isprintable():
        return text
    return _UNUSUAL.sub(
        lambda found: found[0] if found[0].isprintable() else escape(found[0]), text
    )


def _python_escape(character: str) -> str:
    return character.encode("unicode_escape").decode()


def echo(text: str = "", *, nl: bool = True, err: bool = False) -> None:
    """Print the escaped text on standard output or standard error."""
    click.echo(escape_unprintable(text), nl=nl, err=err)  # noqa: TID251  the one place
