"""Text for a terminal, with characters that are not printable escaped.

Names, messages and annotations are written by others. Control characters would move the cursor or
clear the screen; bidirectional and zero-width ones would make text look like other text.
"""

import json
import re

import click

#: newlines and tabs are for the layout
_UNUSUAL = re.compile(r"[^\n\t -~]")


def escape_unprintable(text: str) -> str:
    r"""Return the text with control, bidi, zero-width and other unprintable characters escaped.

    An escape is Python's, such as `\x1b` or `\u202e`. Newlines and tabs stay.
    """
    return text if text.isprintable() else _UNUSUAL.sub(lambda found: _visible(found[0]), text)


def escape_strings(document: bytes) -> bytes:
    r"""Return the JSON document with such characters in its strings shown as `\u202e`.

    Control characters of ASCII stay JSON's escapes.
    """
    text = document.decode()
    if text.isprintable():
        return document
    return _UNUSUAL.sub(lambda found: _visible(found[0]).replace("\\", r"\\"), text).encode()


def escape_json(document: bytes) -> bytes:
    r"""Return the JSON document with such characters as JSON's escapes: the same value."""
    text = document.decode()
    if text.isprintable():
        return document
    return _UNUSUAL.sub(lambda found: _json_escape(found[0]), text).encode()


def _visible(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()


def _json_escape(character: str) -> str:
    return character if character.isprintable() else json.dumps(character)[1:-1]


def echo(text: str = "", *, nl: bool = True, err: bool = False) -> None:
    """Print the text on stdout or stderr, escaped."""
    click.echo(escape_unprintable(text), nl=nl, err=err)  # noqa: TID251  the one place
