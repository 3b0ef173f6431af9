"""The tracks of convolution and depth hold where all is sound, and see each fault."""

from dataclasses import replace

import numpy as np
import pytest

from engine.compiled.backend import NumbaBackend
from engine.couplings.convolution import Convolution
from engine.couplings.link import Link
from engine.couplings.window import Window
from engine.learning.spectral import SpectralCap, clip_norm, layer_radius
from experiments.verify.track import Size, Status, Track, TrackSize
from experiments.verify.track_outcomes import TrackOutcome, run_track
from experiments.verify.tracks import convolution, depth
from golden.displacement import DepthCosines, measure_depth

TORCH = "Largest error against torch: "


def run(track: Track, size: Size) -> TrackOutcome:
    return run_track(replace(track, sizes=dict.fromkeys(TrackSize, size)), TrackSize.QUICK)


def missed(outcome: TrackOutcome) -> list[str]:
    assert outcome.finding is not None, outcome.error
    return [check.name for check in outcome.finding.checks if not check.held]


@pytest.fixture(scope="module")
def sound_convolution():
    return run(convolution.TRACK, Size(1, 6))


@pytest.fixture(scope="module")
def sound_depth():
    return run(depth.TRACK, Size(1, 2))


@pytest.fixture
def trained_before(monkeypatch, sound_convolution):
    """Let trainings be those of the sound track, where a fault is looked for elsewhere."""
    runs = sound_convolution.finding.measurements["runs"]
    found = {run["kind"]: convolution.ImageRun(**run) for run in runs}
    monkeypatch.setattr(convolution, "learn", lambda kind, *_: found[kind])
    monkeypatch.setattr(convolution, "follow", lambda kind, _: found[kind])


@pytest.fixture
def undrawn(monkeypatch):
    """Leave out the picture that another test has drawn."""
    monkeypatch.setattr(depth, "_picture", lambda found: None)


@pytest.fixture
def few(monkeypatch):
    """Judge one network by its gradient, which takes longest."""
    monkeypatch.setattr(convolution, "NETWORKS", {"strided": convolution.NETWORKS["strided"]})


def test_the_convolution_track_holds(sound_convolution):
    assert sound_convolution.status is Status.PASSED
    forms = sound_convolution.finding.measurements["forms"]
    counts = {name: sum(f["form"] == name for f in forms) for name in convolution.EXECUTIONS}
    assert counts["closed forms"] == counts["compiled engine"] == len(convolution.COUPLINGS)
    assert 0 < counts["links"] < len(convolution.COUPLINGS)


def test_the_depth_track_holds(sound_depth):
    assert sound_depth.status is Status.PASSED
    depths = [one["depth"] for one in sound_depth.finding.measurements["depths"]]
    assert depths == list(range(1, 8))


def flipped(w, kernel):
    """Turn the kernels of a block upside down and left to right."""
    turned = list(range(kernel**2))[::-1]  # a list, as torch takes no step below zero
    return w.reshape(kernel**2, -1, w.shape[-1])[turned].reshape(w.shape)


@pytest.mark.usefixtures("trained_before", "few")
def test_closed_forms_with_a_kernel_flipped_on_the_way_back_are_seen(monkeypatch):
    backward = Window.backward
    monkeypatch.setattr(
        Window,
        "backward",
        lambda self, w, b, source: backward(self, flipped(w, self.kernel), b, source),
    )
    outcome = run(convolution.TRACK, Size(1, 6))
    assert outcome.status is Status.FAILED
    assert TORCH + "closed forms" in missed(outcome)
    assert "Largest error of the gradient" in missed(outcome)  # autograd goes through them
    assert TORCH + "links" not in missed(outcome)


@pytest.mark.usefixtures("trained_before", "few")
def test_links_with_a_kernel_flipped_on_the_way_on_are_seen(monkeypatch):
    forward = Link.forward

    def wrong(self, w, a):
        return forward(self, w[::-1] if self.positions > 1 else w, a)

    monkeypatch.setattr(Link, "forward", wrong)
    outcome = run(convolution.TRACK, Size(1, 6))
    assert outcome.status is Status.FAILED
    assert TORCH + "links" in missed(outcome)


class FlippedRule(NumbaBackend):
    """Measures with the kernel of every window flipped."""

    def _accumulate(self, clamped, equilibrium, gradient, energy, cost):
        found = np.zeros_like(gradient)
        super()._accumulate(clamped, equilibrium, found, energy, cost)
        for coupling in self.network.couplings:
            block = self.network.blocks[coupling.name]
            if isinstance(coupling, Convolution) and coupling.groups == 1:
                measured = found[block.span].reshape(block.shape)
                measured[...] = flipped(measured, coupling.kernel)
        gradient += found


@pytest.mark.usefixtures("trained_before", "few")
def test_a_compiled_kernel_flipped_in_the_local_rule_is_seen(monkeypatch):
    monkeypatch.setattr("experiments.verify.torch_images.NumbaBackend", FlippedRule)
    outcome = run(convolution.TRACK, Size(1, 6))
    assert missed(outcome) == [TORCH + "compiled engine"]
    assert outcome.status is Status.FAILED


@pytest.mark.usefixtures("trained_before", "few")
def test_a_stride_off_by_one_is_seen_though_all_forms_agree_on_it(monkeypatch):
    """As many positions, each a little further back: forms, links and kernels read the same."""
    gather, places = Window.gather, Window.places

    def narrow(window):
        return window._replace(stride=max(1, window.stride - 1))

    def short_gather(self, source):
        height, width = (self.reached(size) for size in source[:2])
        close = narrow(self)
        wide = close.reached(source[1])
        rows = gather(close, source).reshape(-1, wide, self.kernel**2 * source[2])
        return np.ascontiguousarray(rows[:height, :width].reshape(height * width, -1))

    monkeypatch.setattr(Window, "gather", short_gather)
    monkeypatch.setattr(Window, "places", lambda self, reached: places(narrow(self), reached))
    lowered_anew = replace(convolution.NETWORKS["strided"])
    monkeypatch.setattr(convolution, "NETWORKS", {"strided": lowered_anew})
    outcome = run(convolution.TRACK, Size(1, 6))
    assert outcome.status is Status.FAILED
    assert {TORCH + form for form in convolution.EXECUTIONS} <= set(missed(outcome))
    assert "Largest error of the gradient" not in missed(outcome)


def test_a_cap_on_the_kernel_instead_of_the_operator_is_seen(monkeypatch, sound_convolution):
    def of_kernels(self, network, blocks, step, vectors):
        share = self.cap / layer_radius(network)
        for bound in network.bounds.values():
            clip_norm(blocks[bound.link.block], share, bound.link.tied)

    runs = sound_convolution.finding.measurements["runs"]
    found = {run["kind"]: convolution.ImageRun(**run) for run in runs}
    monkeypatch.setattr(convolution, "learn", lambda kind, *_: found[kind])
    monkeypatch.setattr(SpectralCap, "enforce", of_kernels)
    outcome = run(convolution.TRACK, Size(1, 6))
    assert outcome.status is Status.FAILED
    assert missed(outcome) == [
        "Largest norm of an update, with the cap",
        "Largest norm after training, with the cap",
    ]


@pytest.fixture
def wrong_sign(monkeypatch):
    """Let every displacement point the other way."""
    relax = NumbaBackend._relax

    def turned(self, clamped, plan, start):
        found = relax(self, clamped, plan, start)
        return [
            one if one.displacement is None else replace(one, displacement=-one.displacement)
            for one in found
        ]

    monkeypatch.setattr(NumbaBackend, "_relax", turned)


@pytest.mark.usefixtures("wrong_sign", "undrawn")
def test_the_depth_track_sees_displacements_of_the_wrong_sign(monkeypatch):
    """Nothing is made up: seven layers are trained too, and climb their cost."""
    ends = (1, depth.DEEPEST)
    monkeypatch.setattr(
        depth, "depth_sweep", lambda *given: [measure_depth(k, *given) for k in ends]
    )
    outcome = run(depth.TRACK, Size(1, 1))
    assert outcome.status is Status.FAILED
    seen = missed(outcome)
    cosines = [c for c in outcome.finding.checks if c.name.endswith(("depth 1", "depth 7"))]
    assert all(check.measured < -0.99 for check in cosines)
    assert "Largest error of the gradient, beta 1e-06" in seen
    assert "Error of 7 layers over that of their read-out only" in seen


@pytest.mark.usefixtures("wrong_sign", "trained_before", "few")
def test_the_convolution_track_sees_displacements_of_the_wrong_sign(monkeypatch):
    monkeypatch.setattr(convolution, "trained_case", lambda case, *_: case)  # none learns so
    outcome = run(convolution.TRACK, Size(1, 6))
    assert "Smallest cosine with the gradient" in missed(outcome)


@pytest.mark.usefixtures("undrawn")
def test_the_depth_track_sees_a_control_that_displaces_too(monkeypatch, sound_depth):
    """States that lose nothing would say that there is nothing to gain."""
    measured = sound_depth.finding.measurements
    found = {run["kind"]: depth.DeepRun(**run) for run in measured["runs"]}
    same = [DepthCosines(**one | {"states": one["displaced"]}) for one in measured["depths"]]
    monkeypatch.setattr(depth, "learn", lambda kind, *_: found[kind])
    monkeypatch.setattr(depth, "depth_sweep", lambda *_: same)
    outcome = run(depth.TRACK, Size(1, 1))
    assert missed(outcome) == ["States, depth 7: largest cosine of the worst layer"]
