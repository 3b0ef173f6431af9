"""How hard Hypothesis tries: `ci` is fast and repeatable, `dev` looks further, `fuzz` hunts."""

from hypothesis import HealthCheck, settings

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]

# Hypothesis makes its own default repeatable where it sees a CI service, so each profile says it.
PROFILES = {
    "ci": settings(
        deadline=None, derandomize=True, max_examples=25, suppress_health_check=SLOW[:1]
    ),
    "dev": settings(
        deadline=None, derandomize=False, max_examples=100, suppress_health_check=SLOW[:1]
    ),
    "fuzz": settings(
        deadline=None,
        derandomize=False,
        max_examples=60,
        print_blob=False,
        suppress_health_check=SLOW,
    ),
}


def register() -> None:
    """Make the profiles known to Hypothesis by name."""
    for name, profile in PROFILES.items():
        settings.register_profile(name, profile)
