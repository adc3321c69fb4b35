"""Markdown page of `kubedsm compare`: the ranking first, then one chapter per experiment."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files

from kubedsm_lab.comparison.experiments import Experiment, Part
from kubedsm_lab.replay.rankings import Place, everyone, ours_and_best
from kubedsm_lab.replay.tables import markdown, render_sections

TITLE = "KubeDSM compared with other schedulers"

Played = Sequence[tuple[Experiment, Part]]

_BOLD = "In bold: the best value, and values within the difference between repetitions."


def text(played: Played, failed: Mapping[str, str]) -> str:
    """Return the comparison page as Markdown, without title; `failed` has the error message by
    experiment name.
    """
    chapters = ["\n".join(_render_chapter(*each)) for each in played]
    return "\n".join(
        [
            answer(played),
            *_list_failures(failed),
            _tabulate_experiments(played),
            *chapters,
            f"## Schedulers that do not run here\n\n{_read_about('elsewhere')}",
        ]
    )


def answer(played: Played) -> str:
    """Return the ranking chapter as Markdown: KubeDSM against the best other scheduler, by
    measurement.
    """
    rankings = [each for _, part in played for each in part.rankings]
    compared = [each for each in rankings if each.difference is not None]
    differing = [found for each in compared if each.can_differ and (found := each.difference)]
    places = Counter(found.place for found in differing)
    said = ", ".join(f"{place.value} in {places[place]}" for place in Place)
    counted = f"KubeDSM compared with the best of the others, figure by figure: {said}."
    if alike := len(compared) - len(differing):
        counted += f" {alike} further figures are the same for every scheduler."
    level = "Level means: the difference is smaller than between repetitions."
    parts = ["## Summary", f"{counted} {level}"]
    parts += [
        f"**{experiment.title}** ({experiment.how})\n\n{markdown(*ours_and_best(part.rankings))}"
        for experiment, part in played
        if ours_and_best(part.rankings)[1]
    ]
    behind = [line for each in played for line in _explain_behind(*each)]
    if behind:
        parts += ["Figures in which KubeDSM is behind, and the reason:", "\n".join(behind)]
    return "\n\n".join(parts) + "\n"


def _explain_behind(experiment: Experiment, part: Part) -> Iterator[str]:
    """Yield one line per reason for which KubeDSM ranks behind a competitor."""
    figures: dict[str, list[str]] = {}
    for each in part.rankings:
        found = each.difference
        if found is not None and found.place is Place.BEHIND:
            known = (why for what, why in experiment.reasons.items() if each.what.startswith(what))
            why = next(known, "The reason is unknown.")
            figures.setdefault(why, []).append(f"{each.what} (behind {found.other})")
    for why, behind in figures.items():
        yield f"- **{experiment.name}**: {'; '.join(behind)}. {why}"


def _list_failures(failed: Mapping[str, str]) -> Iterator[str]:
    for name, why in failed.items():
        yield f"**{name} failed when it was run last**: {why}. The results below are older.\n"


def _tabulate_experiments(played: Played) -> str:
    lines = [
        [experiment.name, experiment.how, "full" if part.full else "short", f"{part.about}."]
        for experiment, part in played
    ]
    table = markdown(["experiment", "method", "size", "configuration"], lines)
    return f"## Experiments\n\n{table}\n\n{_read_about('words')}"


def _render_chapter(experiment: Experiment, part: Part) -> Iterator[str]:
    yield f"## {experiment.title}\n\n{_read_about(experiment.name)}"
    yield f"**Method:** {experiment.how}. **Configuration:** {part.about}.\n"
    if part.rankings:
        yield f"### Ranking\n\n{_BOLD}\n\n{markdown(*everyone(part.rankings))}\n"
    yield render_sections(part.tables, level=3)


def _read_about(name: str) -> str:
    return (files(__package__) / "about" / f"{name}.md").read_text(encoding="utf-8")
