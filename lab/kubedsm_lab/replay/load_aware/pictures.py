"""The p95 against the users."""

from collections.abc import Mapping, Sequence

from kubedsm_lab.replay.charts.lines import Line, key, lines
from kubedsm_lab.replay.charts.looks import looks_of
from kubedsm_lab.replay.charts.panel import Panel, picture
from kubedsm_lab.replay.load_aware.tables import MODELLED, Of
from kubedsm_lab.replay.load_aware.trial import Outcome


def pictures(outcomes: Sequence[Outcome]) -> Mapping[str, bytes]:
    """SVG files by name: one a graph, with a panel a scenario."""
    graphs = dict.fromkeys(graph for graph, _ in Of(outcomes).kinds)
    about = f"The 95th percentile of response times against the number of users. {MODELLED}."
    return {
        f"p95-by-users-{graph}.svg": picture(
            f"How slow requests get: graph {graph}", about, _drawn(outcomes, graph)
        )
        for graph in graphs
    }


def _drawn(outcomes: Sequence[Outcome], graph: str) -> list[Panel]:
    tried = Of(outcomes).all(graph=graph)
    looks = looks_of(tried.contenders)
    panels = []
    for _, scenario in tried.kinds:
        drawn = []
        for contender in tried.contenders:
            of_one = tried.all(scenario=scenario, contender=contender)
            means = ((users, of_one.all(users=users).mean("p95")) for users in of_one.users)
            known = [(float(users), p95) for users, p95 in means if p95 is not None]
            drawn.append(Line(contender, looks[contender], known))
        panels.append(lines(f"scenario {scenario}", drawn, "users", "p95, s"))
    return [key("schedulers", list(looks.items())), *panels]
