"""FIND and HOLD for people."""

from rich.console import Group, RenderableType
from rich.text import Text

from kubedsm.terminal.fitted_table import table
from loadgen.hpa import Played
from loadgen.recovery import Sla, Window


def hpa_report(played: Played) -> RenderableType:
    sla = played.plan.sla
    headings = ("clients", "from", "for", "requests", "errors", "p99", "SLA")
    shown = table(
        ("", *headings),
        [
            *(("FIND", *_cells(clients, window, sla)) for clients, window in played.stages),
            *(("HOLD", *_cells(played.clients, window, sla)) for window in played.windows),
        ],
        title=f"{played.plan.url} (times in s)",
        numbers=headings,
        least=("requests", "for"),
        look="compact",
        above_line=len(played.stages),
    )
    return Group(shown, *(Text(line) for line in _remarks(played)))


def line_of(clients: int, window: Window, sla: Sla) -> str:
    """One window, as soon as it is over."""
    _, start, _, requests, errors, p99, verdict = _cells(clients, window, sla)
    seen = f"{requests} requests, {errors} errors, p99 {p99} s, {verdict}"
    return f"{start} s: {clients} clients, {seen}"


def _cells(clients: int | None, window: Window, sla: Sla) -> list[str]:
    return [
        str(clients),
        f"{window.start:.0f}",
        f"{window.seconds:.1f}",
        str(window.requests),
        str(window.errors),
        "-" if window.p99 is None else f"{window.p99:.3f}",
        "good" if window.good(sla) else "bad",
    ]


def _remarks(played: Played) -> list[str]:
    lines, p99s, found = [], played.p99s, played.recovery
    if played.interrupted:
        lines.append("Stopped before its end; the window that was cut short is left out.")
    if played.ok_rate is not None:
        good = f"HOLD: {played.clients} clients, {played.ok_rate:.0%} of the windows are good"
        if p99s:
            good += f", p99 at most {max(p99s):.3f} s, on average {sum(p99s) / len(p99s):.3f} s"
        lines.append(f"{good}.")
    if found is not None:
        lines.append(
            {
                "recovered": f"Time to recover: {found.seconds:.1f} s.",
                "no_degradation": "No window was bad: there was nothing to recover from.",
                "no_recovery_within_hold": "Not recovered: it takes longer than HOLD.",
            }[found.mode]
        )
    return lines
