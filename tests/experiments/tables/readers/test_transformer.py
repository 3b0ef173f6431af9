"""Rows of the energy transformer: from its own report of known runs."""

from dataclasses import replace
from pathlib import Path

from experiments.reporting.number_text import NONE
from experiments.tables.readers.catalogue import READERS
from experiments.tables.registry import MEASUREMENTS, TABLES
from experiments.transformer.command import COMPARED, ONCE
from experiments.transformer.measures import Answers, Moment, Multistability
from experiments.transformer.outcomes import TransformerOutcome
from experiments.transformer.report import write_report
from experiments.transformer.settings import settings_for
from experiments.transformer.training import BACKPROP, EQPROP

COMMAND = MEASUREMENTS["transformer"].command


def _outcome(
    kind: tuple[str, int, int], method: str, seed: int, wrong: int, cosine: float
) -> TransformerOutcome:
    tokens = 80_000 if kind in COMPARED else 16_000
    answers = Answers(tokens, wrong, tokens // 8, 0, 1e-6, (10.0, 20.0, 30.0))
    moments = [
        Moment(update, 1.0, 0.9, found, lopsided, 10.0, 5.0, 0.0)
        for update, found, lopsided in ((0, 0.9999, 0.0), (150, cosine, 2 / 16))
    ]
    return TransformerOutcome(
        kind[0], method, seed, settings_for(*kind, quick=False).as_dict(), 9, answers, answers,
        Multistability(200, 10, 0, 0, 0), (((0.0, 1.0), (1.0, 0.0)),), tuple(moments), 1.0,
    )  # fmt: skip


def _outcomes() -> list[TransformerOutcome]:
    both = [
        _outcome(kind, method, 42 + k, wrong, cosine)
        for kind in COMPARED
        for method in (EQPROP, BACKPROP)
        for k, (wrong, cosine) in enumerate(((0, 0.957), (1, 0.8994), (0, float("nan"))))
    ]
    return both + [_outcome(kind, EQPROP, 42, 4464, 0.7591) for kind in ONCE]


def test_rows_have_errors_of_each_seed_and_the_worst_moment(tmp_path: Path) -> None:
    write_report(_outcomes(), tmp_path, f"{COMMAND} --workers 2", {})
    rows = READERS["transformer"](tmp_path, COMMAND, tmp_path)
    assert TABLES["transformer"].parts == (("transformer", len(rows)),)
    assert rows[0] == (
        "reversal, 10 tokens",
        "EqProp",
        "0, 1, 0 of 80,000",
        "99.9996",
        f"0.9570, 0.8994, {NONE}",
        "2, 2, 2 of 16",
    )
    assert [row[0] for row in rows] == [
        *(("reversal, 10 tokens",) * 2),
        "reversal, 10 tokens, length 16",
        *(("reversal, 50 tokens",) * 2),
        "copy",
        "shift by one",
        "sort",
    ]
    assert rows[1][1:] == ("backprop", "0, 1, 0 of 80,000", "99.9996", NONE, NONE)
    assert rows[-1][1:] == ("EqProp", "4,464 of 16,000", "72.1000", "0.7591", "2 of 16")
    assert (tmp_path / MEASUREMENTS["transformer-picture"].picture).is_file()


def test_another_error_is_another_row(tmp_path: Path) -> None:
    first, *others = _outcomes()
    worse = replace(first, settled=replace(first.settled, wrong=7))
    write_report([worse, *others], tmp_path, COMMAND, {})
    assert READERS["transformer"](tmp_path, COMMAND, tmp_path)[0][2] == "7, 1, 0 of 80,000"
