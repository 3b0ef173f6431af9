"""Hunt for networks that do not settle or learn as theory says."""

try:
    import hypothesis as hypothesis
except ModuleNotFoundError as error:
    raise ImportError('fuzzing needs Hypothesis: pip install "settle[dev]".') from error
