"""What is written of a replay, as Markdown: its figures, and the paper's where they compare."""

from collections.abc import Sequence

from kubedsm.config.settings import Configuration
from kubedsm_lab.emulator.paper import paper_cluster
from kubedsm_lab.replay import evaluation
from kubedsm_lab.replay.presets import PAPER_SCENARIOS
from kubedsm_lab.replay.report import Report, plain_tables, scenarios_of
from kubedsm_lab.replay.services import PAPER_SERVICES
from kubedsm_lab.replay.sources import Source
from kubedsm_lab.replay.world import Setup


def text(found: Report, other: str) -> str:
    """Of scenarios that somebody chose. other: what is not the paper's, if anything."""
    beside = _left_out(found, other) if other else evaluation.beside_published(found)
    return "\n".join(filter(None, (plain_tables(found), beside)))


def papers_text(found: Report, other: str) -> str:
    """Of the paper's scenarios."""
    tables = evaluation.tables(found, published=not other)
    return "\n".join(filter(None, (_left_out(found, other) if other else "", tables)))


def _left_out(found: Report, other: str) -> str:
    if not set(scenarios_of(found["means"])) & set(PAPER_SCENARIOS):
        return ""
    return (
        "What the KubeDSM paper published does not stand beside these figures, as it is about other"
        f" {other}.\n"
    )


def other_than_the_papers(setup: Setup, chosen: Sequence[Source] = ()) -> str:
    """What is not as the paper had it; nothing if all is."""
    differs = {
        "nodes": setup.cluster != paper_cluster(),
        "services": setup.services != PAPER_SERVICES,
        "settings": setup.configuration != Configuration(),
        "scenarios": any(not one.drawn and one.name in PAPER_SCENARIOS for one in chosen),
    }
    return " and ".join(what for what, yes in differs.items() if yes)
