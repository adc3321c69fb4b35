"""What was found, kept in a folder: results for machines, a page, its text, and pictures."""

from collections.abc import Mapping
from pathlib import Path

import attrs
import msgspec

from kubedsm import __version__
from kubedsm.config.documents import DocumentError, content, json_as, reading
from kubedsm.terminal.whole_files import folder_for, write_whole
from kubedsm_lab.comparison.experiment import Experiment, Found, Part
from kubedsm_lab.comparison.text import TITLE, text
from kubedsm_lab.replay.files import RESULTS, put, put_pictures
from kubedsm_lab.replay.page import page


class _Results(msgspec.Struct, frozen=True, rename="camel"):
    """By the experiment's name."""

    #: nothing of it is of a real cluster
    emulated: bool
    version: str
    compared: dict[str, Part]


@attrs.define
class Kept:
    out: Path
    #: those that there may be, in the order of the page
    experiments: Mapping[str, Experiment]
    _parts: dict[str, Part] = attrs.field(factory=dict, init=False)
    #: why there is nothing new of it
    failed: dict[str, str] = attrs.field(factory=dict, init=False)

    @classmethod
    def within(cls, out: Path, experiments: Mapping[str, Experiment]) -> "Kept":
        """Make the folder, or read what an earlier run left in it.

        Raises OSError, and DocumentError if the results there are something else's.
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

    def take(self, name: str, found: Found) -> None:
        """In place of what there was of that experiment. Raises OSError."""
        named = {f"{name}-{file}": content for file, content in found.pictures.items()}
        put_pictures(self.out, named)
        self._parts[name] = msgspec.structs.replace(found.part, pictures=tuple(named))
        self.failed.pop(name, None)
        self.write()

    @property
    def played(self) -> list[tuple[Experiment, Part]]:
        """In the order of the page."""
        return [
            (e, self._parts[name]) for name, e in self.experiments.items() if name in self._parts
        ]

    def write(self) -> None:
        """Raises OSError."""
        made = text(self.played, self.failed)
        parts = {experiment.name: part for experiment, part in self.played}
        results = _Results(emulated=True, version=__version__, compared=parts)
        put(self.out, msgspec.json.encode(results) + b"\n", f"# {TITLE}\n\n{made}")
        shown = {
            file: path.read_bytes()
            for part in parts.values()
            for file in part.pictures
            if (path := self.out / file).exists()
        }
        policies = (name for p in parts.values() for s in p.standings for name in s.values)
        write_whole(self.out / "index.html", page(TITLE, made, shown, policies))
