"""What theory says of a simulated chip: no word wraps, states stay in range, costs add up."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from engine.equilibrium import Relaxation
from experiments.fuzz.strategies import Case, cases, quadratic_networks
from experiments.fuzz.theory import theory
from hw_sim.chips.catalogue import CHIPS
from hw_sim.chips.cells import CrossbarConfig
from hw_sim.chips.chip import Chip
from hw_sim.chips.crossbar import CROSSBAR, CrossbarBackend
from hw_sim.chips.digital import DIGITAL, DigitalBackend
from hw_sim.chips.fixed_point import DigitalConfig
from hw_sim.chips.spiking import SPIKING, SpikingBackend, SpikingConfig
from hw_sim.chips.substrate import Substrate
from hw_sim.counts import OpCounts
from hw_sim.events import WAITS
from hw_sim.formula import dense_counts
from hw_sim.places import BORDER
from hw_sim.prices.bill import Bill, Design, grouped
from hw_sim.prices.checks import TechnologyError
from hw_sim.prices.technology import shipped_technologies

WIDEST = 60
"""Bits of an accumulator that no network of the strategies can fill."""
FINE = DigitalConfig(24, 20, 60, None, 16, weight_range=16.0, input_range=64.0)
"""Fixed point so fine that its table of activations is what rounds most."""
NUDGES = (0.0, 0.25, -0.25)
"""Multiples of the finest nudge of every chip."""

RANGES = st.sampled_from([1.0, 2.0, 8.0])
ON_DIGITAL = st.fixed_dictionaries(
    {
        "kind": st.just(DIGITAL.name),
        "weight_bits": st.integers(5, 16),
        "state_bits": st.integers(2, 12),
        "accumulator_bits": st.integers(4, 40),
        "table_bits": st.integers(4, 12),
        "weight_range": RANGES,
        "input_range": RANGES,
        "table_range": RANGES,
    }
)
ON_CROSSBAR = st.fixed_dictionaries(
    {
        "kind": st.just(CROSSBAR.name),
        "weight_range": RANGES,
        "levels": st.sampled_from([0, 2, 64]),
        "program_noise": st.sampled_from([0.0, 0.05]),
        "read_noise": st.sampled_from([0.0, 0.05]),
        "wire_resistance": st.sampled_from([0.0, 0.01]),
        "dac_bits": st.sampled_from([0, 4, 8]),
        "adc_bits": st.sampled_from([0, 4, 8]),
        "convert_each_step": st.booleans(),
        "tile_rows": st.sampled_from([0, 2]),
        "tile_columns": st.sampled_from([0, 3]),
        "split_arrays": st.booleans(),
    }
)
ON_SPIKING = st.fixed_dictionaries(
    {"kind": st.just(SPIKING.name), "threshold": st.sampled_from([0.0, 0.01, 0.3])}
)


def cases_on(
    chips: st.SearchStrategy[dict[str, Any]], betas: Sequence[float] = NUDGES
) -> st.SearchStrategy[Case]:
    """Cases with a chip to run them on; their couplings may be too strong for it."""
    plain = cases(quadratic_networks(), high=3.0, betas=betas, scales=("plain", "large input"))
    return st.builds(lambda case, chip: replace(case, chip=chip), plain, chips)


def build_chip(case: Case, **changes: Any) -> Substrate:
    """Return the chip of a case with the network loaded; `changes` replace its settings."""
    settings = dict(case.chip or {}) | changes
    chip = CHIPS[settings.pop("kind")]
    return chip.build(case.network, case.params, chip.settings_from(settings))


def _fixed_point(case: Case, **changes: Any) -> DigitalBackend:
    settings = {k: v for k, v in (case.chip or {}).items() if k != "kind"} | changes
    return DigitalBackend(case.network, case.params, DigitalConfig(**settings))


@theory(
    "Where a fixed-point chip reports no saturation, wider words give the same, bit for bit.",
    cases_on(ON_DIGITAL),
)
def words_never_wrap(case: Case) -> None:
    """And weights stay within their words, whatever the update; all that would not are counted."""
    narrow, wide = _fixed_point(case), _fixed_point(case, accumulator_bits=WIDEST)
    results = []
    for chip in (narrow, wide):
        settled = chip.settle(chip.clamp(case.x, case.y), case.beta, Relaxation(6, 0.0))
        results.append((settled.state, chip.predict(settled)))
    assert wide.saturations.accumulator == 0
    if narrow.saturations.accumulator == 0:
        for found, expected in zip(*results, strict=True):
            np.testing.assert_array_equal(found, expected)
    largest, before = 2 ** (narrow.config.weight_bits - 1) - 1, narrow.saturations.weight
    narrow.apply(np.full(case.network.size, 3.0 * narrow.config.weight_range))
    assert (narrow.words == largest).all()
    assert narrow.saturations.weight == before + case.network.size


@theory(
    "On every chip states stay in their range, and what is said to have converged has.",
    cases_on(ON_DIGITAL | ON_CROSSBAR | ON_SPIKING),
)
def chips_stay_in_range(case: Case) -> None:
    """However strong the coupling and however bad the devices."""
    chip = build_chip(case)
    for steps, tolerance in ((1, 0.0), (12, 0.05)):
        way = Relaxation(steps, tolerance)
        found = chip.settle(chip.clamp(case.x, case.y), case.beta, way)
        assert (np.abs(found.state) <= 1.0).all()  # which no number that is not one passes
        assert ((found.steps >= 1) & (found.steps <= steps)).all()
        np.testing.assert_array_equal(found.converged, found.residual <= tolerance)
        assert (found.steps[~found.converged] == steps).all()


@theory(
    "A chip without rounding, noise or threshold is the engine.",
    cases(quadratic_networks(), high=0.9, betas=NUDGES),
)
def perfect_chips_are_the_engine(case: Case) -> None:
    """State, steps, what is read, and the local rule; fixed point up to its words."""
    way = Relaxation(8, 1e-3)
    chips: list[tuple[Substrate, float]] = [
        (SpikingBackend(case.network, case.params, SpikingConfig(threshold=0.0)), 1e-10),
        (CrossbarBackend(case.network, case.params, _perfect_cells(case)), 1e-10),
        (DigitalBackend(case.network, case.params, FINE), 1e-3),
    ]
    expected = case.backend.settle(case.clamped, case.beta, way)
    learned = np.zeros(case.network.size)
    case.backend.accumulate(case.clamped, expected, learned, energy=1.0, cost=1.0)
    for chip, error in chips:
        clamped, total = chip.clamp(case.x, case.y), np.zeros(case.network.size)
        found = chip.settle(clamped, case.beta, way)
        chip.accumulate(clamped, found, total, energy=1.0, cost=1.0)
        if error < 1e-9:  # rounding may take a residual across the tolerance
            close = np.abs(expected.residual - way.tolerance) < error
            assert (close | (found.steps == expected.steps)).all()
        size = 1.0 + np.abs(case.x).max()
        steps_apart = (found.steps != expected.steps).any()  # by no more than the last of them
        for one, other, scale in (
            (found.state, expected.state, 1.0),
            (chip.predict(found), case.backend.predict(expected), size),
            (total, learned, len(case.x) * size),
        ):
            atol = scale * (error + steps_apart * 2 * way.tolerance)
            np.testing.assert_allclose(one, other, rtol=0, atol=5 * atol)


def _perfect_cells(case: Case) -> CrossbarConfig:
    """Return a crossbar whose cells reach the largest weight and any value below it."""
    largest = float(np.abs(case.params.theta).max())
    return CrossbarConfig(on_off_ratio=np.inf, weight_range=max(1.0, 1.01 * largest))


@theory(
    "A chip counts every event, by the closed formula, and for each sample apart.",
    cases_on(ON_DIGITAL | ON_CROSSBAR | ON_SPIKING, betas=NUDGES[1:]),
)
def counts_are_exact(case: Case) -> None:
    """What a batch does is the sum of what its samples do; the digital chip does what is due."""
    quiet = {"read_noise": 0.0} if _is(case, CROSSBAR) else {}
    whole, evaluations = _counted(build_chip(case, **quiet), case, slice(None))
    apart = OpCounts()
    for k in range(len(case.x)):
        apart += _counted(build_chip(case, **quiet), case, slice(k, k + 1))[0]
    assert dict(whole) == dict(apart)
    if _is(case, DIGITAL):
        due = dense_counts(case.network, len(case.x), *evaluations, phases=2)
        assert {key: n for key, n in whole if key[1] != BORDER} == dict(due)


def _is(case: Case, chip: Chip) -> bool:
    return case.chip is not None and case.chip["kind"] == chip.name


def _counted(chip: Substrate, case: Case, rows: slice) -> tuple[OpCounts, tuple[int, int]]:
    """Learn from some samples; return the counts and the evaluations, free and nudged."""
    gradient = np.zeros(case.network.size)
    clamped = chip.clamp(case.x[rows], case.y[rows])
    free = chip.settle(clamped, 0.0, Relaxation(5, 0.05))
    nudged = chip.settle(clamped, case.beta, Relaxation(5, 0.05), free.state)
    chip.accumulate(clamped, free, gradient, energy=-1.0, cost=1.0)
    chip.accumulate(clamped, nudged, gradient, energy=1.0)
    return chip.counts, (int(free.steps.sum()), int(nudged.steps.sum()))


@theory(
    "The cost of a run is the sum of its events times their prices, however it is divided.",
    cases_on(ON_DIGITAL | ON_CROSSBAR | ON_SPIKING, betas=NUDGES[1:]),
)
def costs_add_up(case: Case) -> None:
    """In every technology that has a price for all that happened; there is at least one."""
    chip, gradient = build_chip(case), np.zeros(case.network.size)
    clamped = chip.clamp(case.x, case.y)
    for beta in (0.0, case.beta):
        chip.accumulate(clamped, chip.settle(clamped, beta), gradient, energy=1.0)
    chip.apply(-0.01 * gradient)
    design = Design(case.network, 8, 6, chip.footprint.count(case.network))
    priced = 0
    for technology in shipped_technologies().values():
        bill = Bill(technology, design, chip.counts)
        try:
            total = bill.energy_j
        except TechnologyError:
            continue
        priced += 1
        for by in ("phase", "place", "kind"):
            parts = grouped(bill.energy_parts(), by)
            np.testing.assert_allclose(sum(parts.values()), total, rtol=1e-12)
        by_hand = sum(
            count * technology.price_at("energy", kind, design.parameters).value
            for (_, _, kind), count in chip.counts
            if kind not in WAITS
        )
        by_hand += bill.static_sum().nominal * bill.latency_s
        np.testing.assert_allclose(total, by_hand, rtol=1e-12)
        times = bill.latency_parts().values()
        np.testing.assert_allclose(sum(times), bill.latency_s, rtol=1e-12)
        assert total > 0.0
    assert priced > 0
