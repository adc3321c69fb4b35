"""The p95 against the users. Needs matplotlib (`pip install 'kubedsm[plots]'`)."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from kubedsm.replay.load_aware.tables import Of
from kubedsm.replay.load_aware.trial import Outcome
from kubedsm.replay.plots import PALETTE, png

_MODELLED = "a model, not a measurement; schedulers on an emulated cluster in virtual time"


def pictures(outcomes: Sequence[Outcome]) -> dict[str, bytes]:
    """PNG files by name: one a graph, with a panel a scenario."""
    graphs = dict.fromkeys(graph for graph, _ in Of(outcomes).kinds)
    return {
        f"p95-by-users-{graph}.png": png(_drawn(outcomes, graph), _MODELLED) for graph in graphs
    }


def _drawn(outcomes: Sequence[Outcome], graph: str) -> Figure:
    tried = Of(outcomes).all(graph=graph)
    figure = Figure(figsize=(3.6 * len(tried.kinds), 3.6))
    panels = figure.subplots(1, len(tried.kinds), squeeze=False)[0]
    for axes, (_, scenario) in zip(panels, tried.kinds, strict=True):
        for place, contender in enumerate(tried.contenders):
            of_one = tried.all(scenario=scenario, contender=contender)
            means = [of_one.all(users=users).mean("p95") for users in of_one.users]
            axes.plot(
                of_one.users, means, color=PALETTE[place], marker="o", markersize=3, label=contender
            )
        axes.set_title(f"{graph}, scenario {scenario}", fontsize=9)
        axes.set_xlabel("users")
        axes.set_ylim(bottom=0)
    panels[0].set_ylabel("p95, s")
    panels[0].legend(fontsize=7)
    return figure
