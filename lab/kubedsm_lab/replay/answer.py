"""Summary of a replay's report in one sentence, printed above the tables."""

import sys
import textwrap
from collections import Counter
from collections.abc import Container, Mapping, Sequence

from rich.text import Text

from kubedsm.terminal.console import Console
from kubedsm_lab.baselines.registry import KUBEDSM
from kubedsm_lab.replay.presets import REFERENCE
from kubedsm_lab.replay.report import (
    Report,
    encode_report,
    policies_of,
    scenarios_of,
    tables,
)
from kubedsm_lab.replay.tables import Row, mean

KEPT = "Edge ratio: mean edge share of the services' Ready pods."
#: differences below which shares are equal, and below which they get another digit
_LEVEL, _CLOSE = 0.005, 0.02


def answer(found: Report, over: Container[str] | None = None) -> str:
    """Return a sentence that compares the edge shares of the best policies, over the scenarios that
    all of these were run on.

    `over` restricts the scenarios.
    """
    rows = _select_comparable([m for m in found["means"] if over is None or m["scenario"] in over])
    ratios = {name: _average_policy(rows, name, "edgeRatio") for name in policies_of(rows)}
    known = {name: ratio for name, ratio in ratios.items() if ratio is not None}
    if not known:
        return "There is no edge ratio: a service never had a Ready pod."
    best = max(known, key=lambda name: known[name])
    subject = KUBEDSM if KUBEDSM in known else best
    others = [name for name in known if name != subject]
    other = REFERENCE if REFERENCE in others else max(others, key=known.__getitem__, default=None)
    compared = _compare_policies(known, subject, other)
    said = f"{policy_title(subject)} kept {compared}, {_describe_moves(rows, subject)}."
    if best not in {subject, other} and known[best] - known[subject] >= _LEVEL:
        said += f" {policy_title(best)} kept more: {_format_percent(known[best], known[subject])}."
    return said


def print_report(found: Report, said: str, output: str) -> None:
    """Print the report as JSON, or the answer and the tables."""
    if output == "json":
        sys.stdout.buffer.write(encode_report(found))
        sys.stdout.buffer.flush()
        return
    console = Console()
    console.print(Text(textwrap.fill(said, console.width)), "\n", sep="")
    console.print(tables(found))


def _select_comparable(means: Sequence[Row]) -> list[Row]:
    """Return the mean results of the scenarios on which both KubeDSM and kube-scheduler were run.

    Of the other policies, only those that played equally many scenarios remain.
    """
    wanted = {row["policy"] for row in means} & {KUBEDSM, REFERENCE}
    played = Counter(row["scenario"] for row in means if row["policy"] in wanted)
    scenarios = [name for name in scenarios_of(means) if played[name] == len(wanted)]
    rows = [row for row in means if row["scenario"] in scenarios] or list(means)
    number = Counter(row["policy"] for row in rows)
    return [row for row in rows if number[row["policy"]] == max(number.values())]


def _compare_policies(known: Mapping[str, float], subject: str, other: str | None) -> str:
    ours = known[subject]
    if other is None:
        return f"{_format_percent(ours)} at the edge"
    theirs = known[other]
    if abs(ours - theirs) < _LEVEL:
        return f"{_format_percent(ours)} at the edge, as much as {policy_title(other)}"
    both = _format_percent(ours, theirs), _format_percent(theirs, ours)
    if ours < theirs:
        return f"{both[0]} at the edge, less than the {both[1]} of {policy_title(other)}"
    return f"{both[0]} at the edge where {policy_title(other)} kept {both[1]}"


def _describe_moves(rows: Sequence[Row], subject: str) -> str:
    moves = _average_policy(rows, subject, "migrations") or 0.0
    lost = _average_policy(rows, subject, "lostPodSeconds") or 0.0
    runs = sum(row["seeds"] for row in rows if row["policy"] == subject)
    a_run = " per run" if runs > 1 else ""
    shown = f"{moves:.1f}".removesuffix(".0") if moves else "no"
    with_moves = f"with {shown} migration{'' if shown == '1' else 's'}{a_run if moves else ''}"
    if not lost:
        return f"{with_moves} and no lost capacity"
    return f"{with_moves} that cost {max(lost, 0.1):.1f} pod-seconds of capacity{a_run}"


def _average_policy(rows: Sequence[Row], policy: str, key: str) -> float | None:
    values = [row[key] for row in rows if row["policy"] == policy]
    return None if None in values else mean(values)


def _format_percent(share: float, other: float = 1.0) -> str:
    return f"{100 * share:.{1 if abs(share - other) < _CLOSE else 0}f} %"


def policy_title(policy: str) -> str:
    return "KubeDSM" if policy == KUBEDSM else policy
