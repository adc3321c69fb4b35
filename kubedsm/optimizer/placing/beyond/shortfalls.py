"""By how much a decision may be less than it could be: what is not proven of it."""

from collections.abc import Iterable, Iterator, Mapping

from kubedsm.objective.objective import NANO
from kubedsm.optimizer.matching.problem import Turn
from kubedsm.optimizer.placing.beyond.integer_choice import PLACED, QOS, level_called, turn_called
from kubedsm.optimizer.programming.in_order import Certificate
from kubedsm.optimizer.programming.programme import Status

#: How much, by goal and whose it is, those first that come first.
Amounts = Mapping[tuple[str, str], int]


def amounts(placed: Mapping[Turn, int], worth: Mapping[int, int]) -> Amounts:
    """Pods placed, by turn, and QoS, by level."""
    found = {(PLACED, turn_called(turn)): placed[turn] for turn in sorted(placed, reverse=True)}
    found |= {(QOS, level_called(level)): worth[level] for level in sorted(worth, reverse=True)}
    return found


def shortfalls(
    reached: Amounts, best: Amounts, certificates: Iterable[Certificate]
) -> Iterator[Certificate]:
    """What may be missing of what was reached, where `best` knows of no more rules.

    certificates: of what is not proven of the best; several of a goal are of parts that add up.
    Where less was reached, nothing is known of the goals that come after that.
    """
    gaps: dict[tuple[str, str], int] = {}
    notes: dict[tuple[str, str], str] = {}
    for each in certificates:
        if each.note:
            notes[each.goal, each.of] = each.note
        if each.bound is not None and each.value is not None:
            goal = each.goal, each.of
            gaps[goal] = gaps.get(goal, 0) + each.bound - each.value
    several = {name: sum(name == each for each, _ in reached) > 1 for name in (PLACED, QOS)}
    for (name, of), value in reached.items():
        bound = best[name, of] + gaps.get((name, of), 0)
        if value < bound:
            whose, unit = of if several[name] else "", int(NANO) if name == QOS else 1
            note = notes.get((name, of), "")
            yield Certificate(name, Status.FEASIBLE, value, bound, of=whose, unit=unit, note=note)
        if value < best[name, of]:
            return
