"""Explanations as plain text, and facts as JSON."""

import msgspec


def said(words):
    """A sentence, with links as what they are called."""
    return "".join(word if isinstance(word, str) else word.text or "then" for word in words)


def lines_of(answer):
    return [said(line) for line in answer.lines]


def section(answer, title):
    """The lines and the rows of the section whose title begins like that; None if there is none."""
    for found in answer.sections:
        if found.title.startswith(title):
            rows = found.table.rows if found.table else ()
            return [*map(said, found.lines), *(" | ".join(map(said, row)) for row in rows)]
    return None


def links_of(answer):
    """All that can be asked about further: kinds with keys."""
    cells = [
        cell for part in answer.sections if part.table for row in part.table.rows for cell in row
    ]
    lines = [*answer.lines, *(line for part in answer.sections for line in part.lines)]
    words = (word for sentence in (*lines, *cells) for word in sentence)
    return {(word.kind, word.key) for word in words if not isinstance(word, str)}


def as_sent(facts):
    """Facts as the JSON that a client receives."""
    return msgspec.json.decode(msgspec.json.encode(facts))
