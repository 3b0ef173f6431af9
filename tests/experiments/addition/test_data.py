import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.torch_arrays import torch
from experiments.addition.data import (
    Holdout,
    Pairs,
    Sampler,
    decode,
    encode,
    holdout,
    prompts,
    right_digits,
)
from experiments.addition.sums import EOS, LIMIT, PAD

OPERAND = st.integers(0, LIMIT - 1)


def pairs_of(*pairs):
    a, b = np.array(pairs, np.int64).T
    return Pairs(a, b)


@given(OPERAND, OPERAND)
def test_a_row_spells_the_sum_as_published(a, b):
    text = f"{a:010}+{b:010}={f'{a + b:011}'[::-1]}"
    expected = ["0123456789+=".index(letter) for letter in text] + [EOS]
    row = encode(pairs_of((a, b)))[0]
    assert row.tolist() == expected
    assert prompts(pairs_of((a, b)))[0].tolist() == expected[:22]
    assert decode(row[None, 22:]) == [a + b]


def test_an_answer_that_is_no_number_is_none():
    rows = encode(pairs_of((1, 2), (3, 4), (5, 6)))[:, 22:]
    rows[1, 4], rows[2, -1] = PAD, 0
    assert decode(rows) == [3, None, None]


def test_right_digits_finds_the_one_that_is_wrong():
    pairs = pairs_of((12, 34), (56, 78))
    answers = encode(pairs)[:, 22:]
    answers[1, 3] += 1
    expected = np.ones((2, 11), bool)
    expected[1, 3] = False
    assert np.array_equal(right_digits(answers, pairs), expected)


def test_the_hold_out_follows_the_published_stream():
    held_out = holdout(43)
    generator = torch.Generator().manual_seed(43)
    a, b = (torch.randint(LIMIT, (30_000,), generator=generator) for _ in range(2))
    # Among 15,000 pairs below 10^20 none repeats, so the first 15,000 are the split.
    for part, rows in ((held_out.validation, slice(5_000)), (held_out.test, slice(5_000, 15_000))):
        assert np.array_equal(part.a, a[rows].numpy())
        assert np.array_equal(part.b, b[rows].numpy())


def test_a_sampler_never_draws_what_is_held_out():
    """Of the 100 pairs of one-digit numbers all but three are held out."""
    free = {(0, 0), (4, 9), (9, 4)}
    taken = [(a, b) for a in range(10) for b in range(10) if (a, b) not in free]
    sampler = Sampler(0, Holdout(pairs_of(*taken[:50]), pairs_of(*taken[50:])))
    drawn = sampler.draw(500, most_digits=1)
    assert set(zip(drawn.a.tolist(), drawn.b.tolist(), strict=True)) == free


@pytest.mark.parametrize("digits", [1, 3, 10])
def test_draws_reach_the_most_digits_and_no_further(digits):
    sampler = Sampler(1, holdout(1))
    drawn = sampler.draw(4000, digits)
    for operand in (drawn.a, drawn.b):
        assert operand.min() >= 0
        assert 10 ** (digits - 1) <= operand.max() < 10**digits
    # The number of digits is uniform: a share of about 1 / digits is below ten for sure.
    assert (drawn.a < 10).mean() == pytest.approx(np.mean(10.0 ** -np.arange(digits)), abs=0.03)


def nines_passed(pairs):
    """Count, for each sum, the places where a carry comes in and the digits sum to nine."""
    counts = []
    for a, b in zip(pairs.a.tolist(), pairs.b.tolist(), strict=True):
        carry = passed = 0
        for place in range(10):
            total = a // 10**place % 10 + b // 10**place % 10
            passed += carry and total == 9
            carry = total + carry >= 10
        counts.append(passed)
    return np.array(counts)


def test_a_share_of_the_sums_carries_through_many_places():
    sampler = Sampler(1, holdout(1))
    drawn = sampler.draw(3000, 10, carrying=0.5)
    chosen, others = (nines_passed(drawn[rows]) for rows in (slice(1500), slice(1500, None)))
    # A carry starts at a uniform place below n and passes a uniform number of those above it, n
    # being uniform too: (n - 1) / 4 on average. By chance one place in twenty is passed.
    assert chosen.mean() > 0.9 * 4.5 / 4
    assert others.mean() < 0.4
    assert chosen.max() == 9
    assert max(drawn.a.max(), drawn.b.max()) < LIMIT


def test_every_chosen_sum_has_a_carry_within_its_digits():
    drawn = Sampler(1, holdout(1)).draw(2000, 3, carrying=1.0)
    assert max(drawn.a.max(), drawn.b.max()) < 1000
    digits = [number // 10 ** np.arange(3)[:, None] % 10 for number in (drawn.a, drawn.b)]
    assert ((digits[0] + digits[1]) >= 10).any(axis=0).all()


def test_thinned_sums_have_zeros_at_every_place_alike():
    drawn = Sampler(1, holdout(1)).draw(8000, 6, sparse=0.5)
    zeros = [number[:, None] // 10 ** np.arange(6) % 10 == 0 for number in (drawn.a, drawn.b)]
    for zero in zeros:
        assert zero[:4000].mean(axis=0) == pytest.approx(np.full(6, 0.1), abs=0.03)
        assert zero[4000:].mean(axis=0) == pytest.approx(np.full(6, 0.55), abs=0.03)
    # One probability for a sum: its operands are thin together.
    counts = [zero[4000:].sum(axis=1) for zero in zeros]
    assert np.corrcoef(counts)[0, 1] > 0.4
    assert max(drawn.a.max(), drawn.b.max()) < 10**6


def test_seeds_draw_different_pairs_and_the_same_seed_the_same():
    held_out = holdout(1)
    first, again, other = (Sampler(seed, held_out).draw(8, 10).a for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
