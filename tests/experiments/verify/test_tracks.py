"""Each track holds where all is sound, and fails when what it verifies is broken."""

import sys
from dataclasses import replace

import numpy as np
import pytest

from engine.backend import Backend
from engine.compiled.backend import NumbaBackend
from engine.couplings.dense import Lateral
from engine.learning.spectral import SpectralCap
from experiments.records import Record
from experiments.verify import peak_memory
from experiments.verify.track import Size, Status, Track, TrackSize
from experiments.verify.track_outcomes import TrackOutcome, run_track
from experiments.verify.tracks import (
    backprop_parity,
    constant_memory,
    controls,
    golden_reference,
    local_update,
    noise_damping,
    right_gradient,
    spectral_cap,
)
from golden.cases import initial_case, scale_recurrent, trained_case
from tests.experiments.verify.verify_faults import hoarding

TINY = Size(1, 1)


def run(track: Track, size: Size = TINY) -> TrackOutcome:
    return run_track(replace(track, sizes=dict.fromkeys(TrackSize, size)), TrackSize.QUICK)


def missed(outcome: TrackOutcome) -> list[str]:
    assert outcome.finding is not None, outcome.error
    return [check.name for check in outcome.finding.checks if not check.held]


@pytest.fixture
def without_cap(monkeypatch):
    monkeypatch.setattr(SpectralCap, "enforce", lambda *_: None)


@pytest.fixture
def undrawn(monkeypatch):
    """Leave out pictures that another test looks at."""
    for track in (spectral_cap, noise_damping, constant_memory):
        monkeypatch.setattr(track, "_picture", lambda found: None)


def test_the_cap_track_holds():
    outcome = run(spectral_cap.TRACK)
    assert outcome.status is Status.PASSED
    runs = outcome.finding.measurements
    starts = {name: found[0]["before"] for name, found in runs.items()}
    assert len(set(starts.values())) == 1  # the same weights to begin with
    assert len(outcome.finding.pictures[0].png) > 0
    reached = max(runs[spectral_cap.SPARSE][0]["norms"])
    assert reached > spectral_cap.CAP
    assert any(
        f"the norm reached {reached:.3f} in between" in text for text in outcome.finding.limits
    )


@pytest.mark.usefixtures("undrawn")
def test_the_cap_track_sees_projections_that_are_only_estimates(monkeypatch):
    estimated = SpectralCap(spectral_cap.CAP, method="power")
    monkeypatch.setitem(spectral_cap.RUNS, spectral_cap.SPARSE, estimated)
    outcome = run(spectral_cap.TRACK)
    assert outcome.status is Status.FAILED
    assert missed(outcome) == ["Largest norm right after the projection at every 5th"]


@pytest.mark.usefixtures("without_cap", "undrawn")
def test_the_cap_track_sees_a_cap_that_is_not_applied():
    outcome = run(spectral_cap.TRACK)
    assert outcome.status is Status.FAILED
    assert "Largest norm, cap exact at every update" in missed(outcome)


@pytest.mark.usefixtures("undrawn")
def test_the_cap_track_sees_a_comparison_that_is_capped_too(monkeypatch):
    monkeypatch.setitem(spectral_cap.RUNS, spectral_cap.UNCAPPED, spectral_cap.EXACT_CAP)
    outcome = run(spectral_cap.TRACK)
    assert outcome.status is Status.FAILED
    assert "Smallest norm after training without the cap" in missed(outcome)


def make_record(name, seed, accuracy):
    return Record(
        task="digits", title="Digits", contestant=name, seed=seed, accuracy=accuracy, cost=0.0,
        n_test=360, majority_rate=0.1, parameters=1, settings={}, curve=(), returns=None,
        seconds=0.0,
    )  # fmt: skip


@pytest.fixture
def made_up_runs(monkeypatch):
    """Let EqProp and backprop have given accuracies, a little different from seed to seed."""

    def put(eqprop, backprop, idle=0.1):
        def made_up(job):
            mean = eqprop if job.contestant == "eqprop_looped" else backprop
            if job.settings.lr < 1e-9:
                mean = idle
            wobble = 0.002 * np.random.default_rng(job.seed).standard_normal()
            return make_record(job.contestant, job.seed, mean + wobble)

        monkeypatch.setattr(backprop_parity, "run_job", made_up)
        monkeypatch.setattr(backprop_parity, "linear_accuracy", lambda seed: 0.9)

    return put


@pytest.mark.parametrize(
    ("accuracies", "status", "word"),
    [
        ((0.97, 0.97), Status.PASSED, None),
        ((0.97, 0.92), Status.FAILED, "3 points"),
        ((0.92, 0.97), Status.FAILED, "3 points"),
        ((0.96, 0.97), Status.PARTIAL, "0.5 points"),
        ((0.10, 0.10), Status.FAILED, "p that a run is at the majority class"),
        ((0.40, 0.40), Status.FAILED, "majority class's"),
        ((0.88, 0.88), Status.PARTIAL, "linear classifier"),
        ((0.97, 0.97, 0.97), Status.FAILED, "learn nothing"),
    ],
)
def test_the_parity_track_asks_for_a_small_gap_far_above_chance(
    accuracies, status, word, made_up_runs
):
    made_up_runs(*accuracies)
    outcome = run(backprop_parity.TRACK, Size(5, 1))
    assert outcome.status is status
    if word is None:
        assert missed(outcome) == []
    else:
        assert any(word in name for name in missed(outcome))


def test_the_parity_track_sees_learners_that_learn_nothing(monkeypatch):
    """No number is made up here: every contestant is trained, at no pace."""
    real = backprop_parity.train_all
    idle = real(1, 1, backprop_parity.IDLE)
    monkeypatch.setattr(backprop_parity, "train_all", lambda *_, **__: idle)
    monkeypatch.setattr(backprop_parity, "linear_accuracy", lambda seed: 0.9)
    outcome = run(backprop_parity.TRACK)
    assert outcome.status is Status.FAILED
    assert "Largest error of a run over the majority class's" in missed(outcome)
    # The control that is part of the track says the same of the same networks.
    assert not any("learn nothing" in name for name in missed(outcome))


def test_the_noise_track_holds():
    outcome = run(noise_damping.TRACK)
    assert outcome.status is Status.PASSED
    (damping,) = outcome.finding.measurements["runs"]
    assert damping["norm"] <= noise_damping.CAP * (1 + 1e-6)


@pytest.mark.usefixtures("without_cap", "undrawn")
def test_the_noise_track_sees_a_cap_that_is_not_applied():
    outcome = run(noise_damping.TRACK)
    assert outcome.status is Status.FAILED
    assert any("Linear regime" in name for name in missed(outcome))


@pytest.fixture(scope="module")
def drawn_cases():
    """A looped network and a transformer, trained once for all tests."""
    chosen = ("looped", "transformer")
    with pytest.MonkeyPatch.context() as patch:
        few = {name: golden_reference.NETWORKS[name] for name in chosen}
        patch.setattr(golden_reference, "NETWORKS", few)
        cases = list(golden_reference.draw_cases(42))
        patch.setattr(golden_reference, "draw_cases", lambda seed: cases)
        yield cases


@pytest.mark.usefixtures("drawn_cases")
def test_the_golden_track_holds():
    outcome = run(golden_reference.TRACK, Size(1, 3))
    assert outcome.status is Status.PASSED
    names = {pair["case"] for pair in outcome.finding.measurements["pairs"]}
    assert {"looped, norm 1.5, trained", "transformer, trained"} <= names


def test_roundings_grow_only_where_steps_expand():
    """Of ten units the largest change cannot grow while the norm is below 1 / sqrt(10)."""
    network, rng = golden_reference.NETWORKS["looped"], np.random.default_rng(3)
    calm = initial_case("calm", network, rng, norm=0.3)
    assert golden_reference.rounding_growth(calm, 0.0, 10) == 1.0
    wild = replace(calm, x=0.0 * calm.x, params=calm.params.copy())
    scale_recurrent(wild.params, 2.0)  # at zero the slope of tanh is one: a change doubles
    assert golden_reference.rounding_growth(wild, 0.0, 10) > 2.0**5


class Drifting(NumbaBackend):
    """Off by far less than training would notice."""

    _relax = Backend._relax  # one phase after the other

    def _relax_one(self, clamped, beta, relaxation, start):
        settled = super()._relax_one(clamped, beta, relaxation, start)
        return replace(settled, state=settled.state * type(settled.state.flat[0])(1 + 1e-4))


class Miscounting(NumbaBackend):
    def _accumulate(self, clamped, equilibrium, gradient, energy, cost):
        super()._accumulate(clamped, equilibrium, gradient, energy * 1.001, cost)


@pytest.mark.usefixtures("drawn_cases")
@pytest.mark.parametrize(("backend", "word"), [(Drifting, "state"), (Miscounting, "local rule")])
def test_the_golden_track_sees_a_backend_that_is_slightly_off(backend, word, monkeypatch):
    monkeypatch.setitem(golden_reference.BACKENDS, "torch", backend)
    outcome = run(golden_reference.TRACK, Size(1, 3))
    assert outcome.status is Status.FAILED
    assert len(missed(outcome)) == 2
    assert all(word in name for name in missed(outcome))


@pytest.mark.usefixtures("drawn_cases")
def test_the_golden_track_sees_a_harness_that_notices_nothing(monkeypatch):
    monkeypatch.setattr(golden_reference, "FAULT", 0.0)
    (name,) = missed(run(golden_reference.TRACK, Size(1, 3)))
    assert "is not found" in name


@pytest.mark.usefixtures("undrawn")
def test_the_memory_track_tells_constant_from_growing(monkeypatch):
    """Each process is measured once, and judged as EqProp and as BPTT."""
    found = {}

    def once(prepare, steps):
        if (prepare, steps) not in found:
            found[prepare, steps] = peak_memory.measure_peak(prepare, steps)
        return found[prepare, steps]

    monkeypatch.setattr(constant_memory, "measure_peak", once)
    names, outcomes = ("EqProp, numba", "BPTT, torch"), {}
    for eqprop in (peak_memory.eqprop_numba, hoarding):
        for bptt in (peak_memory.eqprop_numba, hoarding):
            monkeypatch.setattr(constant_memory, "EQPROP", {names[0]: eqprop})
            monkeypatch.setattr(constant_memory, "BPTT", {names[1]: bptt})
            outcomes[eqprop, bptt] = run(constant_memory.TRACK, Size(1, 500))
    passed = [key for key, outcome in outcomes.items() if outcome.status is Status.PASSED]
    assert passed == [(peak_memory.eqprop_numba, hoarding)]
    (name,) = missed(outcomes[hoarding, hoarding])
    assert name == "EqProp, numba: states stored for each step"
    stored = outcomes[hoarding, hoarding].finding.checks[0].measured
    assert stored == pytest.approx(3, rel=0.1)  # three phases a step


def test_memory_that_cannot_be_measured_fails_the_track(monkeypatch):
    monkeypatch.setattr(sys, "executable", "false")
    outcome = run(constant_memory.TRACK)
    assert outcome.status is Status.FAILED
    assert "the memory of eqprop_numba was not measured: exit code 1" in outcome.error


def test_the_locality_track_holds():
    assert run(local_update.TRACK, Size(1, 3)).status is Status.PASSED


def test_what_backprop_sees_beyond_the_ends_is_named():
    prepared = local_update.prepare(local_update.networks(3)["layered"], 1)
    trial = local_update.try_rule("", "", 1, local_update.backprop_rule, prepared)
    said = {str(offence) for offence in trial.offences}
    assert any(
        one.startswith("the update of W_1[0, 0] depends on the state of layer1[1") for one in said
    )
    assert any(one.startswith("the update of W_1[0, 0] depends on the weight W_2[") for one in said)
    assert any("depends on the weight W_out[" in one for one in said)
    # What is at its ends is no offence.
    assert not any("W_1[0, 0] depends on the state of layer1[0]" in one for one in said)
    assert not any("W_1[0, 0] depends on the weight W_1[0, 0]" in one for one in said)


def test_the_locality_track_sees_a_rule_that_looks_elsewhere(monkeypatch):
    original = NumbaBackend._accumulate

    def leaking(self, clamped, equilibrium, gradient, energy, cost):
        original(self, clamped, equilibrium, gradient, energy, cost)
        gradient += 1e-9 * energy * equilibrium.state.sum()

    monkeypatch.setattr(NumbaBackend, "_accumulate", leaking)
    outcome = run(local_update.TRACK, Size(1, 3))
    assert outcome.status is Status.FAILED
    assert "EqProp: dependencies beyond the two ends" in missed(outcome)


def test_the_locality_track_sees_a_rule_that_reads_weights(monkeypatch):
    original = NumbaBackend._accumulate

    def peeking(self, clamped, equilibrium, gradient, energy, cost):
        original(self, clamped, equilibrium, gradient, energy, cost)
        gradient *= 1 + 1e-9 * float(self.params.theta.sum())

    monkeypatch.setattr(NumbaBackend, "_accumulate", peeking)
    outcome = run(local_update.TRACK, Size(1, 3))
    assert "EqProp: dependencies beyond the two ends" in missed(outcome)
    first = next(t for t in outcome.finding.measurements["trials"] if t["offences"])
    assert "depends on the weight" in first["offences"][0]


def test_the_locality_track_traces_a_rule_that_looks_elsewhere(monkeypatch):
    original = Lateral.correlate

    def smoothed(self, w, x, *states):
        return original(self, w, x, *states) + 0.0 * states[0].sum()

    monkeypatch.setattr(Lateral, "correlate", smoothed)
    outcome = run(local_update.TRACK, Size(1, 3))
    assert "EqProp: the same, by tracing the local rules" in missed(outcome)


def test_the_locality_track_sees_a_test_that_lets_everything_pass(monkeypatch):
    monkeypatch.setattr(local_update, "backprop_rule", local_update.eqprop_rule(NumbaBackend))
    outcome = run(local_update.TRACK, Size(1, 3))
    assert missed(outcome) == ["Backprop: fewest dependencies beyond the two ends on a network"]
    assert outcome.status is Status.FAILED


@pytest.fixture
def small_gradient(monkeypatch):
    monkeypatch.setattr(right_gradient, "NETWORKS", {"looped": right_gradient.NETWORKS["looped"]})
    monkeypatch.setattr(right_gradient, "UNROLLED", 150)
    monkeypatch.setattr(right_gradient, "measure_digits", lambda seed, epochs: ([], 1.0))


@pytest.mark.usefixtures("small_gradient")
def test_the_gradient_track_holds():
    assert run(right_gradient.TRACK).status is Status.PASSED


def test_the_gradient_is_right_on_a_network_that_learned_digits():
    agreements, cosine = right_gradient.measure_digits(42, 1)
    assert [one.found.reference for one in agreements] == ["BPTT", "implicit", "differences"]
    assert all(one.found.passed for one in agreements)
    assert cosine > 0.99


class Noisy(NumbaBackend):
    """A gradient of the right direction with one per cent of noise."""

    def _accumulate(self, clamped, equilibrium, gradient, energy, cost):
        before = gradient.copy()
        super()._accumulate(clamped, equilibrium, gradient, energy, cost)
        part = gradient - before
        noise = np.random.default_rng(0).standard_normal(part.shape)
        gradient += 0.01 * np.abs(part) * noise


@pytest.mark.usefixtures("small_gradient")
def test_the_gradient_track_sees_noise(monkeypatch):
    monkeypatch.setattr(right_gradient, "NumbaBackend", Noisy)
    outcome = run(right_gradient.TRACK)
    assert outcome.status is Status.FAILED
    names = missed(outcome)
    assert any("relative error: implicit" in name for name in names)
    assert any("order 2" in name for name in names)


@pytest.mark.usefixtures("small_gradient")
def test_the_gradient_track_sees_a_wrong_sign(monkeypatch):
    monkeypatch.setattr(right_gradient, "NumbaBackend", controls.FlippedBackend)
    outcome = run(right_gradient.TRACK)
    assert outcome.status is Status.FAILED


@pytest.mark.usefixtures("small_gradient")
def test_a_network_that_does_not_learn_stops_the_gradient_track(monkeypatch):
    def hopeless(case, cap, name):
        return trained_case(case, cap, name, drop=-1.0)

    monkeypatch.setattr("golden.cases.UPDATES", 2)
    monkeypatch.setattr(right_gradient, "trained_case", hopeless)
    outcome = run(right_gradient.TRACK)
    assert outcome.status is Status.FAILED
    assert "did not drop within 2 updates" in outcome.error


SEEN = {
    "looped": 0.95, "layered": 0.95, "readout_only": 0.80, "flipped": 0.05, "unnudged": 0.80,
    "nothing": 0.10, "cut": 0.10, "no_recurrence": 0.95, "frozen_recurrence": 0.94,
}  # fmt: skip


@pytest.fixture
def made_up_controls(monkeypatch):
    def put(changes):
        accuracies = SEEN | changes
        titles = {variant.title: name for name, variant in controls.VARIANTS.items()}

        def made_up(variant, seed, epochs):
            name = titles[variant.title]
            wobble = 0.003 * np.random.default_rng([seed, len(name)]).standard_normal()
            spread = 0.0 if name == "cut" else 1.0
            return controls.TrainedVariant(accuracies[name] + wobble, 360, 0.1, np.zeros(3), spread)

        monkeypatch.setattr(controls, "train_variant", made_up)

    return put


@pytest.mark.parametrize(
    ("changes", "title"),
    [
        ({}, None),
        ({"no_recurrence": 0.5}, None),
        ({"flipped": 0.81}, "Sign of the hidden update flipped"),
        ({"unnudged": 0.95}, "Nudge of zero"),
        ({"readout_only": 0.95}, "Read-out only"),
        ({"nothing": 0.9}, "Nothing learns"),
        ({"cut": 0.95}, "W_rec = 0, layered"),
        ({"looped": 0.3}, "EqProp"),
    ],
)
def test_the_control_track_asks_that_each_control_hurts(changes, title, made_up_controls):
    made_up_controls(changes)
    outcome = run(controls.TRACK, Size(4, 1))
    if title is None:
        assert outcome.status is Status.PASSED
    else:
        assert outcome.status is Status.FAILED
        assert any(name.startswith(title) for name in missed(outcome))


def test_without_a_nudge_only_the_readout_learns_and_a_cut_path_carries_nothing():
    found = {
        name: controls.train_variant(controls.VARIANTS[name], 42, 1)
        for name in ("looped", "readout_only", "unnudged", "cut", "flipped")
    }
    assert np.array_equal(found["unnudged"].theta, found["readout_only"].theta)
    assert not np.array_equal(found["looped"].theta, found["readout_only"].theta)
    assert found["cut"].outputs_spread == 0.0 < found["looped"].outputs_spread
    assert found["flipped"].accuracy < found["readout_only"].accuracy < found["looped"].accuracy


def test_the_control_track_sees_a_control_that_changes_nothing(monkeypatch):
    """With every control trained like the whole network, none hurts."""
    whole = {"looped": controls.VARIANTS["looped"], "layered": controls.VARIANTS["layered"]}
    trained: dict[tuple[str, int], controls.TrainedVariant] = {}
    original = controls.train_variant

    def unaltered(variant, seed, epochs):
        name = "layered" if variant.contestant == "eqprop_layered" else "looped"
        if (name, seed) not in trained:
            trained[name, seed] = original(whole[name], seed, epochs)
        return trained[name, seed]

    monkeypatch.setattr(controls, "train_variant", unaltered)
    outcome = run(controls.TRACK, Size(2, 1))
    assert outcome.status is Status.FAILED
    assert sum("p that it does not hurt" in name for name in missed(outcome)) == 5
