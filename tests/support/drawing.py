"""Seeds of drawn instances: a fixed third, or fewer, in a normal run, all and fresh ones in a long
run; and how many examples hypothesis draws.

`pytest --long` plays every seed that a test names, and as many fresh ones. If a fresh seed fails,
it becomes a named case of its test in `tests/counterexamples.json`, which every later run plays.
"""

import json
import os
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

COUNTEREXAMPLES = Path(__file__).parents[1] / "counterexamples.json"
#: number of examples of the profile that the suite runs with
_USUAL = 100
#: base of the fresh seeds of a long run; unset in a normal one
LONG = "KUBEDSM_LONG"
#: last seed that a running test drew, by test
_current: dict[str, int] = {}


def drawn(seeds, one_in=3):
    """Yield the seeds of this run, of all that the test names: one of each `one_in`, or in a long
    run all of them.
    """
    test = _running_test()
    for seed in [*_known_counterexamples(test), *drawn_cases(seeds, one_in)]:
        _current[test] = seed
        yield seed
    del _current[test]


def last_seed(test):
    """Return the seed at which a failed test stopped; None if it draws none."""
    return _current.pop(test, None)


def keep_counterexample(test, seed):
    """Write a fresh seed that failed as a case of its test."""
    known = json.loads(COUNTEREXAMPLES.read_text())
    known[test] = sorted({*known.get(test, ()), seed})
    COUNTEREXAMPLES.write_text(json.dumps(known, indent=2, sort_keys=True) + "\n")


def drawn_cases(seeds, one_in=3):
    """Return the seeds of this run without known counterexamples, for `parametrize`."""
    base = os.environ.get(LONG)
    if base is None:
        # Not always the same one of each: tests often draw by the parity of a seed.
        return [seeds[at] for at in range(len(seeds)) if at % one_in == at // one_in % one_in]
    fresh = random.Random(f"{base} {seeds}")
    return [*seeds, *(fresh.randrange(10**6, 10**9) for _ in seeds)]


def keep_one_in(number, cases):
    """Return the cases for `parametrize`: one of each `number`, or in a long run all of them."""
    return [
        pytest.param(case, marks=pytest.mark.long if at % number else ())
        for at, case in enumerate(cases)
    ]


def _running_test():
    return os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]


def _known_counterexamples(test):
    return json.loads(COUNTEREXAMPLES.read_text()).get(test, ())


def examples(number):
    """Return settings for `number` examples, scaled by the profile; deterministic by default."""
    profile = settings.default
    return settings(
        max_examples=max(1, number * profile.max_examples // _USUAL),
        derandomize=profile.max_examples == _USUAL,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
