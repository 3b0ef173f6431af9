"""What the options of the commands share."""

import argparse


def positive(text: str) -> int:
    """Return a whole number of at least 1, for `type=` of an option."""
    if not (text.isdecimal() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number of at least 1")
    return int(text)
