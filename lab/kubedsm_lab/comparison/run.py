"""Runner of `kubedsm compare`: experiments in sequence, results stored after each."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import attrs
import click
import msgspec

from kubedsm import __version__
from kubedsm.config.documents import DocumentError, content, reading
from kubedsm.terminal.running import nearest
from kubedsm.terminal.whole_files import write_whole
from kubedsm_lab.comparison.experiments import Experiment, Part
from kubedsm_lab.comparison.text import TITLE, text
from kubedsm_lab.documents import json_as
from kubedsm_lab.output_files import folder_for
from kubedsm_lab.replay.findings import Findings
from kubedsm_lab.replay.page import RESULTS, render_page
from kubedsm_lab.replay.runner import Workers


def choose_experiments(known: Sequence[Experiment], names: Sequence[str]) -> list[Experiment]:
    """Return the experiments of `kubedsm compare` with the given names, or all of them.

    Raises UsageError for an unknown name.
    """
    by_name = {each.name: each for each in known}
    for name in names:
        if name not in by_name:
            there = f"there are {', '.join(by_name)}.{nearest(name, list(by_name))}"
            raise click.UsageError(f"no experiment {name!r}: {there}")
    return [each for each in known if not names or each.name in names]


class _Results(msgspec.Struct, frozen=True, rename="camel"):
    #: True: nothing was measured on a real cluster
    emulated: bool
    version: str
    compared: dict[str, Part]


@attrs.define
class ResultDirectory:
    """Directory of results: results.json, the page as HTML and Markdown, and pictures."""

    out: Path
    #: by name, in the order of the page
    experiments: Mapping[str, Experiment]
    _parts: dict[str, Part] = attrs.field(factory=dict, init=False)
    #: reason by name of an experiment that failed
    failed: dict[str, str] = attrs.field(factory=dict, init=False)

    @classmethod
    def open(cls, out: Path, experiments: Mapping[str, Experiment]) -> "ResultDirectory":
        """Create the directory, or load the results of an earlier run.

        Raises OSError, and DocumentError if the results there are of another command.
        """
        kept, path = cls(folder_for(out), experiments), out / RESULTS
        if path.exists():
            with reading(path):
                try:
                    read = json_as(content(path), _Results)
                except DocumentError as error:
                    reason = f"not of this kubedsm compare ({error}): give another folder"
                    raise DocumentError(reason) from None
                kept._parts = {n: part for n, part in read.compared.items() if n in experiments}
        return kept

    def store(self, experiment: Experiment, found: Findings, *, full: bool) -> None:
        """Store an experiment's results, replacing earlier ones. Raises OSError."""
        pictures = {f"{experiment.name}-{file}": drawn for file, drawn in found.draw().items()}
        for file, drawn in pictures.items():
            write_whole(self.out / file, drawn)
        self._parts[experiment.name] = Part(
            full,
            found.method,
            found.rankings,
            # The page has rankings of its own.
            [each for each in found.sections if each.table[1] and each.title != "Ranking"],
            msgspec.Raw(found.results),
            tuple(pictures),
        )
        self.failed.pop(experiment.name, None)
        self.write()

    @property
    def played(self) -> list[tuple[Experiment, Part]]:
        """Return the experiments that have stored results, in the order of the page."""
        return [
            (e, self._parts[name]) for name, e in self.experiments.items() if name in self._parts
        ]

    def write(self) -> None:
        """Write results.json and the page (tables.md, index.html) into the directory. Raises
        OSError.
        """
        made = text(self.played, self.failed)
        parts = {experiment.name: part for experiment, part in self.played}
        results = _Results(emulated=True, version=__version__, compared=parts)
        write_whole(self.out / "tables.md", f"# {TITLE}\n\n{made}")
        write_whole(self.out / RESULTS, msgspec.json.encode(results) + b"\n")
        shown = {
            file: path.read_bytes()
            for part in parts.values()
            for file in part.pictures
            if (path := self.out / file).exists()
        }
        write_whole(self.out / "index.html", render_page(TITLE, made, shown))


def compare(
    experiments: Sequence[Experiment],
    full: bool,
    workers: Workers,
    kept: ResultDirectory,
    say: Callable[[str], None],
) -> None:
    """Run all experiments; afterwards raise the errors of those that failed, and OSError."""
    failures: list[Exception] = []
    for number, each in enumerate(experiments, 1):
        say(f"{number} of {len(experiments)}, {each.name}: {each.title}")
        try:
            found = each.run(full, workers)
        except Exception as error:  # noqa: BLE001 - raised below; the others go on
            failures.append(error)
            kept.failed[each.name] = _in_a_line(error)
            say(f"{each.name} failed: {kept.failed[each.name]}")
            kept.write()
        else:
            kept.store(each, found, full=full)
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise ExceptionGroup("experiments failed", failures)


def _in_a_line(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return " ".join(str(error).split()) or type(error).__name__
