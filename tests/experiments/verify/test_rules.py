"""The rules that judge: checks, status, score, evidence, and how tracks are found."""

import math
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.verify import tracks
from experiments.verify.registry import all_tracks, find_tracks
from experiments.verify.track import (
    Check,
    Level,
    Size,
    Status,
    TrackSize,
    VerifyError,
    level_of,
    score_of,
    status_of,
)

GOOD, BAD = Check("good", 0.0, "<=", 1.0), Check("bad", 2.0, "<=", 1.0)
MINOR = Check("minor", 2.0, "<=", 1.0, essential=False)


@pytest.mark.parametrize(
    ("relation", "below", "equal", "above"),
    [
        ("<=", True, True, False),
        ("<", True, False, False),
        (">=", False, True, True),
        (">", False, False, True),
        ("=", False, True, False),
    ],
)
def test_a_check_compares_as_it_says(relation, below, equal, above):
    held = [Check("c", value, relation, 1.0).held for value in (0.5, 1.0, 1.5)]
    assert held == [below, equal, above]
    assert not Check("c", math.nan, relation, 1.0).held


@given(
    st.lists(st.floats(-10, 10) | st.just(math.nan)),
    st.sampled_from(["<=", "<", ">=", ">", "="]),
)
def test_a_check_of_many_holds_if_there_are_some_and_all_hold(values, relation):
    check = Check.of_all("c", values, relation, 1.0)
    alone = [Check("c", value, relation, 1.0).held for value in values]
    assert check.held == (bool(alone) and all(alone))
    assert check.measured in values or math.isnan(check.measured)


def test_an_essential_check_decides():
    assert status_of([GOOD]) is Status.PASSED
    assert status_of([GOOD, MINOR]) is Status.PARTIAL
    assert status_of([GOOD, MINOR, BAD]) is Status.FAILED
    assert status_of([]) is Status.FAILED
    assert [score_of(c) for c in ([GOOD], [GOOD, MINOR], [GOOD, BAD], [])] == [100, 50, 0, 0]


@given(st.lists(st.tuples(st.floats(allow_nan=True), st.booleans())))
def test_a_score_is_full_only_if_everything_holds(drawn):
    checks = [Check("c", value, "<=", 0.0, essential) for value, essential in drawn]
    score, held = score_of(checks), [check.held for check in checks]
    assert 0 <= score <= 100
    assert (score == 100) == (all(held) and bool(held)) == (status_of(checks) is Status.PASSED)
    assert (score == 0) >= (status_of(checks) is Status.FAILED)


@pytest.mark.parametrize(
    ("size", "level"),
    [
        (Size(5, 30), Level.FULL),
        (Size(4, 30), Level.INTERMEDIATE),
        (Size(9, 29), Level.INTERMEDIATE),
        (Size(3, 6), Level.INTERMEDIATE),
        (Size(2, 30), Level.SMOKE),
        (Size(9, 5), Level.SMOKE),
    ],
)
def test_evidence_takes_seeds_and_size(size, level):
    assert level_of(size, Size(5, 30)) is level


def test_every_claim_has_a_track_of_three_sizes():
    found = all_tracks()
    assert list(found) == [1, 2, 3, 14, 22, 26, 27, 28, 29, 30, 31]
    for track in found.values():
        sizes = [
            track.sizes[effort] for effort in (TrackSize.QUICK, TrackSize.DEFAULT, TrackSize.FULL)
        ]
        assert sizes == sorted(sizes, key=lambda size: (size.seeds, size.amount))
        assert track.level(TrackSize.DEFAULT) is not Level.SMOKE
        assert track.level(TrackSize.FULL) is Level.FULL
        assert track.claim.endswith(".")


def test_tracks_are_found_by_number_once_and_in_order():
    assert [track.number for track in find_tracks([27, 3, 27])] == [3, 27]
    assert [track.number for track in find_tracks([])] == list(all_tracks())
    with pytest.raises(VerifyError, match="there is no track 4; the tracks are 1, 2, 3, 14, 22"):
        find_tracks([3, 4])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "the file odd_one.py in tracks defines no TRACK."),
        (
            "from experiments.verify.tracks.controls import TRACK",
            "two tracks have the number 29.",
        ),
    ],
)
def test_a_file_that_is_no_new_track_is_refused(text, sentence, tmp_path, monkeypatch):
    (tmp_path / "odd_one.py").write_text(text)
    monkeypatch.setattr(tracks, "__path__", [*tracks.__path__, str(tmp_path)])
    monkeypatch.delitem(sys.modules, f"{tracks.__name__}.odd_one", raising=False)
    with pytest.raises(VerifyError) as refused:
        all_tracks()
    assert str(refused.value) == sentence
