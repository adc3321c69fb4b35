"""The tables as one HTML page that needs nothing else."""

from collections.abc import Sequence
from html import escape

from kubedsm.replay.packing.attempts import Attempt
from kubedsm.replay.packing.tables import SECTIONS, Section
from kubedsm.replay.page import document, html_table


def page(attempts: Sequence[Attempt], about: str) -> str:
    body = "\n".join(_section(section, attempts) for section in SECTIONS)
    return document("kubedsm replay --preset packing", f"<p>{escape(about)}.</p>\n{body}")


def _section(section: Section, attempts: Sequence[Attempt]) -> str:
    headings, lines = section.table(attempts)
    if not lines:
        return ""
    title, about = escape(section.title), escape(section.about)
    return f"<h2>{title}</h2>\n<p>{about}</p>\n{html_table(headings, lines)}"
