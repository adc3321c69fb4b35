"""Experiments one after the other; what is done is kept, whatever becomes of the next one."""

from collections.abc import Callable, Sequence

import attrs

from kubedsm.terminal.running import nearest
from kubedsm_lab.baselines.registry import KUBEDSM
from kubedsm_lab.comparison.experiment import Asked, Experiment
from kubedsm_lab.comparison.kept import Kept


class UnknownNameError(ValueError):
    """No experiment, or no policy, has that name; a line."""


def chosen(
    known: Sequence[Experiment], names: Sequence[str], policies: Sequence[str]
) -> list[Experiment]:
    """Those of the names, or all.

    Raises UnknownNameError, also for policies that none of them has.
    """
    by_name = {each.name: each for each in known}
    for name in names:
        if name not in by_name:
            raise UnknownNameError(f"no experiment {name!r}: {_among(name, list(by_name))}")
    found = [each for each in known if not names or each.name in names]
    there = list(dict.fromkeys(policy for each in found for policy in each.policies))
    for policy in policies:
        if policy not in there:
            which = _among(policy, there) if there else "they have policies of their own"
            raise UnknownNameError(f"no policy {policy!r} in {_listed(found)}: {which}")
    return found


def _among(name: str, known: Sequence[str]) -> str:
    return f"there are {', '.join(known)}.{nearest(name, known)}"


def _listed(experiments: Sequence[Experiment]) -> str:
    return ", ".join(each.name for each in experiments)


def compare(
    experiments: Sequence[Experiment], asked: Asked, kept: Kept, say: Callable[[str], None]
) -> None:
    """Raises what the experiments raised, once all have been tried, and OSError."""
    failures: list[Exception] = []
    for number, each in enumerate(experiments, 1):
        say(f"{number} of {len(experiments)}, {each.name}: {each.title}")
        theirs = [name for name in asked.policies if name in each.policies]
        policies = list(dict.fromkeys([KUBEDSM, *theirs])) if theirs else []
        try:
            found = each.run(attrs.evolve(asked, policies=policies))
        except Exception as error:  # noqa: BLE001 - it is raised below; the others go on
            failures.append(error)
            kept.failed[each.name] = _in_a_line(error)
            say(f"{each.name} failed: {kept.failed[each.name]}")
            kept.write()
        else:
            kept.take(each.name, found)
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise ExceptionGroup("experiments failed", failures)


def _in_a_line(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return " ".join(str(error).split()) or type(error).__name__
