"""The command `kubedsm replay`."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import attrs
import click

from kubedsm.config.documents import DocumentError
from kubedsm.config.settings import Configuration, load_file
from kubedsm.solvers.available import SolverKind
from kubedsm.terminal.console import Console
from kubedsm.terminal.echo import echo
from kubedsm.terminal.whole_files import folder_for
from kubedsm_lab.baselines.registry import KUBEDSM
from kubedsm_lab.emulator.cluster_file import load as load_cluster
from kubedsm_lab.emulator.paper import paper_cluster
from kubedsm_lab.replay import presets, tuning
from kubedsm_lab.replay.answer import answer, printed
from kubedsm_lab.replay.files import as_json, write
from kubedsm_lab.replay.hpa.command import PRESET as HPA
from kubedsm_lab.replay.load_aware.command import PRESET as LOAD_AWARE
from kubedsm_lab.replay.packing import command as packing
from kubedsm_lab.replay.progress import progress
from kubedsm_lab.replay.provenance import of_runs, told
from kubedsm_lab.replay.report import Report, report, tables
from kubedsm_lab.replay.runner import carry_out, processors, spread
from kubedsm_lab.replay.services import PAPER_SERVICES
from kubedsm_lab.replay.services import load as load_services
from kubedsm_lab.replay.side_by_side import two_filmed, write_films
from kubedsm_lab.replay.sources import Source, runs, sources
from kubedsm_lab.replay.text import other_than_the_papers, papers_text, text
from kubedsm_lab.replay.variants import BASELINES, UnknownPolicyError, contender
from kubedsm_lab.replay.world import Setup
from loadgen.scenario import ScenarioError

DEFAULT_POLICIES = (KUBEDSM, *BASELINES)
_PAPER, _TUNING, _PACKING = "paper", "tuning", "packing"
#: what has a model in it
_MODELLED = {each.name: each for each in (LOAD_AWARE, HPA)}
_OF_THEIR_OWN = (_PACKING, *_MODELLED)


def replay(
    scenarios: tuple[str, ...],
    *,
    preset: str | None,
    full: bool,
    solver: SolverKind | None,
    seconds: tuple[float, ...],
    policies: str | None,
    cluster_name: str,
    services_path: str | None,
    config_path: str | None,
    seeds: int | None,
    paced: bool,
    jobs: int | None,
    out: Path | None,
    page: Path | None,
    output: str,
) -> None:
    given = policies, services_path, config_path, cluster_name, paced
    other = given != (None, None, None, _PAPER, False)
    _check(
        scenarios, preset, full=full, packs=bool(solver or seconds), other=other, plays=bool(page)
    )
    if preset in _OF_THEIR_OWN:
        with _problems():
            if preset == _PACKING:
                packing.run(packing.plan(seeds, seconds, full=full), solver, jobs, out, output)
            else:
                _MODELLED[preset].run(seeds, full, jobs, out, output)
        return
    with _problems():
        setup = attrs.evolve(_setup(cluster_name, services_path, config_path), paced=paced)
        named, chosen = _policies(policies, setup), sources(scenarios)
        numbers = range(1, 1 + (seeds or (presets.FULL_SEEDS if full else presets.REDUCED_SEEDS)))
        if preset:
            paper = presets.full if full else presets.reduced
            planned = (paper if preset == _PAPER else tuning.tuning)(numbers, setup)
            planned = [run for run in planned if not named or run.policy in named]
        else:
            planned = runs(chosen, named or DEFAULT_POLICIES, numbers, setup)
        for folder in filter(None, (out, page and page.parent)):
            folder_for(folder)
    if page is not None:
        planned = two_filmed(planned)
    spreading = spread(carry_out, planned, jobs or processors())
    outcomes = list(progress("replaying", spreading, len(planned)))
    found = report(outcomes)
    # The paper's variants are of other loads and autoscalers.
    over = presets.PAPER_SCENARIOS if preset == _PAPER else None
    said = tuning.answer(found) if preset == _TUNING else answer(found, over)
    _print(found, said, preset, output)
    if page is not None:
        with _problems():
            write_films(outcomes, page)
    if out is not None:
        made = of_runs(planned, setup, cluster_name, services_path)
        title = "kubedsm replay" + (f" --preset {preset}" if preset else "")
        with _problems():
            write(found, out, title, told(said, made, _text(found, preset, setup, chosen)))


def _print(found: Report, said: str, preset: str | None, output: str) -> None:
    if output == "json":
        sys.stdout.buffer.write(as_json(found))
        sys.stdout.buffer.flush()
        return
    printed(said, Console())
    if preset == _TUNING:
        echo(tuning.table(found), nl=False)
    else:
        Console().print(tables(found))


def _text(found: Report, preset: str | None, setup: Setup, chosen: Sequence[Source]) -> str:
    """Markdown."""
    other = other_than_the_papers(setup, chosen)
    if preset == _TUNING:
        return tuning.table(found)
    return papers_text(found, other) if preset else text(found, other)


def _check(
    scenarios: Sequence[str],
    preset: str | None,
    *,
    full: bool,
    packs: bool,
    other: bool,
    plays: bool,
) -> None:
    """packs: whether it is said how to pack. other: whether it is said what to play, or on what.

    plays: whether there is to be a page of two runs.
    """
    if bool(scenarios) == bool(preset):
        raise click.UsageError("give scenarios, or --preset: one of the two")
    if full and not preset:
        raise click.UsageError("--full needs --preset")
    if plays and preset:
        raise click.UsageError("--page needs a scenario, not --preset")
    if packs and preset != _PACKING:
        raise click.UsageError("--solver and --seconds need --preset packing")
    if other and preset in _OF_THEIR_OWN:
        raise click.UsageError(f"--preset {preset} has clusters, pods and policies of its own")


@contextmanager
def _problems() -> Iterator[None]:
    """What is wrong with what was given: one line; exit code 2 for wrong usage, 1 for the rest."""
    try:
        yield
    except UnknownPolicyError as error:
        raise click.UsageError(str(error)) from None
    except (DocumentError, ScenarioError) as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise click.ClickException(f"{where}{error.strerror or error}") from None


def _setup(cluster: str, services: str | None, config: str | None) -> Setup:
    return Setup(
        paper_cluster() if cluster == "paper" else load_cluster(cluster),
        load_services(services) if services else PAPER_SERVICES,
        load_file(config) if config else Configuration(),
    )


def _policies(given: str | None, setup: Setup) -> list[str]:
    if given is None:
        return []
    names = [name.strip() for name in given.split(",")]
    for name in names:
        if not name:
            raise UnknownPolicyError("--policies: a name is empty")
        if names.count(name) > 1:
            raise UnknownPolicyError(f"policy {name!r} is given twice")
        contender(name, setup.service_names)
    return names
