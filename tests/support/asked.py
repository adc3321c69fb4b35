"""Explanations of the scheduler, converted to plain text and to JSON."""

import msgspec


def said(words):
    """Return a sentence as text, with links replaced by their labels."""
    return "".join(word if isinstance(word, str) else word.text or "then" for word in words)


def lines_of(answer):
    return [said(line) for line in answer.lines]


def section(answer, title):
    """Return lines and table rows of the section whose title starts with `title`, or None."""
    for found in answer.sections:
        if found.title.startswith(title):
            rows = found.table.rows if found.table else ()
            return [*map(said, found.lines), *(" | ".join(map(said, row)) for row in rows)]
    return None


def as_sent(facts):
    """Return facts as decoded from the JSON that a client receives."""
    return msgspec.json.decode(msgspec.json.encode(facts))
