"""Number of hypothesis examples: few and deterministic in the suite, more by profile."""

from hypothesis import HealthCheck, settings

#: of the profile that the suite runs with
_USUAL = 100


def examples(number):
    """Return settings for `number` examples, scaled by the profile; deterministic by default."""
    profile = settings.default
    return settings(
        max_examples=max(1, number * profile.max_examples // _USUAL),
        derandomize=profile.max_examples == _USUAL,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
