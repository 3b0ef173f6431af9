"""What the user can mend."""


class MutantsError(Exception):
    """A mistake in options, lists or tests, as one sentence."""
