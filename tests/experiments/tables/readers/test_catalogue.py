"""Every reader has a measurement, and every measurement its reader."""

from experiments.tables.readers.catalogue import READERS
from experiments.tables.registry import MEASUREMENTS


def test_every_reader_that_is_named_is_there() -> None:
    named = {m.reader for m in MEASUREMENTS.values() if m.reader is not None}
    assert named == set(READERS)
