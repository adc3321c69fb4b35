"""How many examples a test draws: few in the suite, always the same ones; more by a profile."""

from hypothesis import HealthCheck, settings

#: of the profile that the suite runs with
_USUAL = 100


def examples(number):
    """So many where the profile has 100. Those of the suite do not change from run to run."""
    profile = settings.default
    return settings(
        max_examples=max(1, number * profile.max_examples // _USUAL),
        derandomize=profile.max_examples == _USUAL,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
