"""Results for people."""

from rich.console import Group, RenderableType
from rich.text import Text

from kubedsm.terminal.fitted_table import table
from loadgen.measures import Latency, Measures, Results

#: ms; later than this the generator, not the server, is what is measured
LATE = 20.0


def report(results: Results, title: str) -> RenderableType:
    headings = ("requests", "errors", "offered", "achieved", "mean", "p50", "p95", "p99", "max")
    services = results.services
    rows = [_row(name, measures) for name, measures in services.items()]
    if len(services) > 1:
        rows.append(_row("all", results.total))
    shown = table(
        ("service", *headings),
        rows,
        title=f"{title} (rates in requests/s, latency in ms)",
        numbers=headings,
        least=("mean", "offered", "max", "p50", "p99", "achieved"),
        look="compact",
        above_line=len(services),
    )
    return Group(shown, *(Text(line) for line in _remarks(results)))


def _row(name: str, measures: Measures) -> list[str]:
    return [
        name,
        str(measures.requests),
        str(sum(measures.errors.values())),
        f"{measures.offered:.2f}",
        f"{measures.achieved:.2f}",
        *_latency(measures.latency),
    ]


def _latency(latency: Latency | None) -> list[str]:
    if latency is None:
        return ["-"] * 5
    shown = (latency.mean, latency.p50, latency.p95, latency.p99, latency.max)
    return [f"{milliseconds:.1f}" for milliseconds in shown]


def _remarks(results: Results) -> list[str]:
    lines = [
        f"{name}: {', '.join(f'{count} {kind}' for kind, count in measures.errors.items())}"
        for name, measures in results.services.items()
        if measures.errors
    ]
    if results.interrupted:
        lines.append(f"Stopped after {results.seconds:.1f} s.")
    if results.total.unfinished:
        lines.append(
            f"{results.total.unfinished} requests had no answer when the run was stopped, the "
            f"oldest for {results.oldest_unfinished:.1f} s; they are in no latency above."
        )
    pacing = results.pacing
    if pacing is not None:
        lines.append(
            f"Pacing: 99 % of the requests were at hand within {pacing.p99:.1f} ms of when they "
            f"were due, all within {pacing.max:.1f} ms."
        )
        if pacing.p99 > LATE:
            lines.append("So the generator itself was late; latencies include its delay.")
    return lines
