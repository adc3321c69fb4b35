"""What a sweep has shown."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import attrs

from kubedsm.terminal.fitted_table import FittedTable, table
from kubedsm_lab.chaos.story import Injection
from kubedsm_lab.chaos.sweep import Cell, Verdict
from kubedsm_lab.chaos.telling import alike


@attrs.frozen
class Report:
    verdicts: Sequence[Verdict]
    #: all that there are, whether they were chosen or not
    found: Sequence[Injection]

    @property
    def broken(self) -> list[Verdict]:
        """Those that broke a promise, the shortest to tell first."""
        wrong = [verdict for verdict in self.verdicts if verdict.violations]
        return sorted(wrong, key=lambda verdict: (verdict.length, verdict.injection))

    @property
    def sorts(self) -> list[list[Verdict]]:
        """Those that broke a promise, with those that broke it in the same way."""
        sorts: defaultdict[frozenset[str], list[Verdict]] = defaultdict(list)
        for verdict in self.broken:
            sorts[alike(verdict.violations)].append(verdict)
        return list(sorts.values())

    @property
    def cells(self) -> frozenset[Cell]:
        """Which fault at which kind of call or event."""
        return frozenset(i.fault.cell for i in self.found if i.fault is not None)

    @property
    def covered(self) -> frozenset[Cell]:
        """Those in which a fault has struck."""
        return frozenset(
            v.injection.fault.cell
            for v in self.verdicts
            if v.struck and v.injection.fault is not None
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "emulated": True,
            "injections": len(self.verdicts),
            "violations": len(self.broken),
            "cells": len(self.cells),
            "cellsCovered": len(self.covered),
            "broken": [
                {"command": v.injection.command, "violations": v.violations} for v in self.broken
            ],
        }

    def table(self) -> FittedTable:
        """By fault and workload: how many were made, and how many of them broke a promise."""
        workloads = sorted({v.injection.workload for v in self.verdicts})
        made: Counter[tuple[str, str]] = Counter()
        wrong: Counter[tuple[str, str]] = Counter()
        for verdict in self.verdicts:
            fault = verdict.injection.fault
            if fault is not None:
                key = (f"{fault.family} {fault.cell[2]}", verdict.injection.workload)
                made[key] += 1
                wrong[key] += bool(verdict.violations)
        rows = (
            (what, *(_cell(made[what, w], wrong[what, w]) for w in workloads))
            for what in sorted({what for what, _ in made})
        )
        title = "injections by fault and workload; in brackets: promises broken"
        return table(("fault", *workloads), rows, title=title, numbers=workloads)


def _cell(made: int, wrong: int) -> str:
    return f"{made} ({wrong})" if wrong else str(made or "")
