"""Options of `kubedsm replay`, importable without the replay itself for fast help."""

from pathlib import Path
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from kubedsm.solvers.available import SolverKind


@attrs.frozen
class ReplayOptions:
    """Parsed options of `kubedsm replay`: scenarios or preset, cluster, and outputs."""

    scenarios: tuple[str, ...]
    preset: str | None
    full: bool
    solver: "SolverKind | None"
    #: time limits of packing
    seconds: tuple[float, ...]
    policies: str | None
    cluster_name: str
    services_path: str | None
    config_path: str | None
    seeds: int | None
    paced: bool
    #: one client per service, which waits for each response
    closed_loop: bool
    jobs: int | None
    #: address of a Dask scheduler
    executor: str | None
    out: Path | None
    page: Path | None
    output: str
