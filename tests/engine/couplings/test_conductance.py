"""Conductances: a circuit settles where its energy is least, and learns from voltage drops."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from adapters.torch_autograd import implicit_gradient
from adapters.torch_backend import TorchBackend
from engine.arrays import FloatArray
from engine.compiled.backend import NumbaBackend
from engine.couplings.conductance import Conductance, InputConductance
from engine.couplings.dense import Bias
from engine.couplings.readout import SoftmaxReadout, SquaredError
from engine.equilibrium import Relaxation
from engine.errors import EngineError
from engine.learning import checkpoint
from engine.learning.estimator import centered, one_sided
from engine.learning.optimizer import SGD, Adam
from engine.learning.run import Run
from engine.learning.spectral import SpectralCap, uncapped
from engine.learning.training import Training, fit, keep_least, train_step
from engine.model.builders import layered, resistive
from engine.model.network import Layer, Network
from engine.model.params import Params, initial_params
from experiments.fuzz import circuits
from experiments.fuzz.strategies import Case
from golden.fidelity import measure_fidelity
from golden.reference import ReferenceBackend
from hw_sim.chips.digital import DigitalBackend
from hw_sim.chips.spiking import SpikingBackend

SETTLED = Relaxation(5000, 1e-13, "sweeps")
BACKENDS = {"numba": NumbaBackend, "torch": TorchBackend, "reference": ReferenceBackend}
DIVIDER = Network(
    1,
    (Layer("middle", (1,), "linear"), Layer("end", (1,), "linear")),
    (InputConductance("g_in", "middle", 2.0), Conductance("g", "middle", "end", 3.0)),
    SquaredError("end"),
)


def _settled(params: Params, x: FloatArray) -> FloatArray:
    backend = NumbaBackend(params.network, params)
    return backend.settle(backend.clamp(x), relaxation=SETTLED).state


def _case(seed: int, *sizes: int, amplification: float = 1.0) -> tuple[Params, FloatArray]:
    rng = np.random.default_rng(seed)
    network = resistive(sizes, amplification=amplification, g_min=1e-3)
    return initial_params(network, rng, np.float64), rng.standard_normal((5, sizes[0]))


def test_a_divider_has_the_voltages_that_kirchhoff_gives_it() -> None:
    """Sources of 2 x and -2 x, a node, an amplifier of 3, a resistor and a node; leaks of one."""
    g, h, k, x = 0.7, 0.2, 0.5, 1.5
    ((a, b),) = _settled(Params(DIVIDER, np.array([g, h, k])), np.array([[x]]))
    assert a == pytest.approx(g * (2 * x - a) + h * (-2 * x - a) - 3 * k * (3 * a - b), abs=1e-11)
    assert b == pytest.approx(k * (3 * a - b), abs=1e-11)


def test_currents_into_every_node_cancel_but_where_a_diode_holds_it() -> None:
    """Kirchhoff's law by autograd-free slopes: the energy falls in no direction that is open."""
    params, x = _case(1, 4, 7, 6, 3)
    network, state = params.network, _settled(*_case(1, 4, 7, 6, 3))
    slope = -state
    for coupling in network.couplings:
        ends = network.ends(coupling, state)
        sent = coupling.drive(params[coupling.name], x, *([] if coupling.clamped else ends))
        squares = network.squares.get(coupling.name)
        stiff = squares.stiffness(params[coupling.name]) if squares else (0.0,) * len(sent)
        for name, current, c in zip(coupling.layers, sent, stiff, strict=True):
            slope[:, network.columns[name]] += current - c * network.of(name, state)
    for layer in network.layers:
        here, current = network.of(layer.name, state), network.of(layer.name, slope)
        assert np.abs(current[here != 0]).max(initial=0.0) < 1e-10
        if layer.activation == "relu":
            assert here.min() >= 0
            assert current[here == 0].max(initial=0.0) <= 0
        if layer.activation == "mirrored_relu":
            assert here.max() <= 0
            assert current[here == 0].min(initial=0.0) >= 0
    assert (state == 0).any()


MANY = settings(max_examples=40)


@MANY
@given(circuits.circuit_cases(betas=(0.0, 0.5)))
def test_a_sweep_never_raises_the_energy(case: Case) -> None:
    circuits.circuits_descend(case)


@MANY
@given(circuits.circuit_cases())
def test_every_start_leads_to_one_equilibrium(case: Case) -> None:
    circuits.circuits_have_one_equilibrium(case)


@MANY
@given(circuits.circuit_cases() | circuits.circuit_cases(dtype=np.float32))
def test_all_backends_agree(case: Case) -> None:
    circuits.circuits_agree(case)


@MANY
@given(circuits.circuit_cases() | circuits.circuit_cases(dtype=np.float32))
def test_no_update_leads_below_the_least_conductance(case: Case) -> None:
    circuits.conductances_stay(case)


def test_without_amplifiers_plain_steps_contract_in_the_largest_voltage() -> None:
    """`sum_j g_j / (1 + sum_j g_j) < 1` at every node, so that no node moves as far as those it
    hears from."""
    params, x = _case(2, 4, 6, 5, 3)
    backend, rng = NumbaBackend(params.network, params), np.random.default_rng(0)
    near, far = rng.standard_normal((2, 5, params.network.units))
    step = Relaxation(1, 0.0)
    for _ in range(5):
        gap = np.abs(near - far).max()
        near, far = (
            backend.settle(backend.clamp(x), relaxation=step, start=s).state for s in (near, far)
        )
        assert np.abs(near - far).max() < gap


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("amplification", [1.0, 1.5])
def test_the_gradient_is_that_of_implicit_differentiation(
    backend: str, amplification: float
) -> None:
    params, x = _case(3, 4, 6, 5, 3, amplification=amplification)
    y = np.random.default_rng(4).random((5, 3))
    made = BACKENDS[backend](params.network, params)
    for estimator in (centered(1e-5), one_sided(1e-7)):
        (found,) = measure_fidelity(made, x, y, {"implicit": implicit_gradient}, estimator)
        assert found.relative_error < 1e-5, found


def test_a_resistor_learns_from_its_own_voltage_drop_alone() -> None:
    params, x = _case(5, 4, 6, 3)
    coupling = params.network.couplings[2]
    assert isinstance(coupling, Conductance)
    state = _settled(params, x)
    a, b = params.network.ends(coupling, state)
    drops = a[:, :, None] - b[:, None, :]
    found = coupling.correlate(params[coupling.name], x, a, b)
    np.testing.assert_allclose(found, -(drops**2).sum(0) / 2, rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("library", ["numba", "torch"])
def test_the_projection_is_part_of_the_update_and_exact(dtype: type, library: str) -> None:
    """Whatever the sizes: a difference that is rounded would end below the least."""
    network, rng = resistive((3, 40, 2), g_min=1e-5), np.random.default_rng(0)
    params = initial_params(network, rng, dtype)
    backend = BACKENDS[library](network, params)
    for name in network.squares:
        params[name][...] = 10.0 ** rng.uniform(-5, 6, params[name].shape)
        params[name][...] = np.maximum(params[name], dtype(1e-5))
    backend.load(params)
    change = -params.theta * rng.choice([0.3, 1.0, 1.7], len(params.theta)).astype(dtype)
    update = backend.own(change.copy())
    keep_least(backend, update)
    backend.apply(update)
    for name, squares in network.squares.items():
        least, wanted = dtype(squares.g_min), params[name] + Params(network, change)[name]
        found = backend.params[name]
        assert found.min() >= least
        near = np.abs(found - np.maximum(wanted, least))
        assert (near <= 2 * np.spacing(params[name])).all()
        np.testing.assert_array_equal(found[wanted >= least], wanted[wanted >= least])


def test_a_circuit_learns_what_no_matrix_of_conductances_could_without_diodes() -> None:
    """Exclusive or."""
    x = np.array([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]])
    x = np.column_stack([x, np.ones(4)])
    y = np.eye(2)[[0, 1, 1, 0]]
    network = resistive((3, 16, 2), input_amplification=4.0)
    backend = NumbaBackend(network, initial_params(network, np.random.default_rng(1), np.float64))
    epochs = fit(backend, x, y, Training(epochs=400, batch_size=4, optimizer=Adam(0.02)))
    assert epochs[-1].cost < 0.05 * epochs[0].cost
    assert epochs[-1].unsettled == 0.0


def test_the_layers_of_a_circuit_have_diodes_that_point_both_ways() -> None:
    network = resistive((3, 5, 1, 2))
    shown = [(layer.name, layer.size, layer.activation) for layer in network.layers]
    assert shown == [
        ("up1", 3, "relu"),
        ("down1", 2, "mirrored_relu"),
        ("up2", 1, "relu"),
        ("outputs", 2, "linear"),
    ]
    assert network.linear
    assert set(network.links) == {"b_up1", "b_down1", "b_up2", "b_outputs"}


def test_a_checkpoint_holds_a_circuit(tmp_path) -> None:  # type: ignore[no-untyped-def]
    params, x = _case(6, 4, 6, 3, amplification=1.5)
    checkpoint.save(tmp_path / "circuit.npz", params)
    read, _, _ = checkpoint.load(tmp_path / "circuit.npz")
    assert read.network == params.network
    np.testing.assert_array_equal(_settled(read, x), _settled(params, x))


def test_an_update_of_a_circuit_is_the_same_on_torch() -> None:
    params, x = _case(7, 4, 6, 5, 3)
    y, thetas = np.random.default_rng(1).random((5, 3)), []
    for make in (NumbaBackend, TorchBackend):
        backend = make(params.network, params)
        run = Run.start(params.network, 2, np.float64, 0).on(backend)
        training = Training(optimizer=Adam(0.05), free=SETTLED, beta=1e-3, nudged=SETTLED)
        for _ in range(5):
            train_step(backend, backend.own(x), backend.own(y), training, run, 5)
        thetas.append(backend.params.theta)
    np.testing.assert_allclose(*thetas, rtol=0, atol=1e-7)


def test_what_is_no_circuit_is_refused() -> None:
    params, _ = _case(8, 4, 6, 3)
    network, mixed = params.network, layered((4, 6, 5, 3))
    with pytest.raises(EngineError, match=r"'g_1_up1' has amplification 0\.0, expected a positive"):
        resistive((4, 6, 3), input_amplification=0.0)
    with pytest.raises(EngineError, match=r"has g_min -1\.0, expected a positive number"):
        resistive((4, 6, 3), g_min=-1.0)
    with pytest.raises(EngineError, match=r"\(4, 3\) leave no hidden layer"):
        resistive((4, 3))
    with pytest.raises(EngineError, match="'g' meets layer 'layer1' of tanh, whose nodes are no"):
        replace(mixed, couplings=(*mixed.couplings, Conductance("g", "layer1", "layer2")))
    params["g_up1_outputs"][0, 0] = -0.1
    with pytest.raises(EngineError, match=r"block 'g_up1_outputs' holds a negative conductance"):
        NumbaBackend(network, params)


def test_no_cap_and_no_chip_knows_a_circuit() -> None:
    params, x = _case(8, 4, 6, 3)
    reasons = uncapped(params.network)
    assert set(reasons) == {"g_up1_outputs", "g_down1_outputs"}
    assert all("its energy is convex" in reason for reason in reasons.values())
    backend = NumbaBackend(params.network, params)
    with pytest.raises(EngineError, match="convex"):
        fit(backend, x, np.ones((5, 3)), Training(epochs=1, cap=SpectralCap()))
    fit(backend, x, np.ones((5, 3)), Training(epochs=1, optimizer=SGD(0.01), cap=None))
    for chip in (DigitalBackend, SpikingBackend):
        with pytest.raises(EngineError):
            chip(params.network, params)


def test_conductances_and_a_softmax_share_a_network() -> None:
    """The nudge of a read-out with weights is divided by what meets at the node, too."""
    rng = np.random.default_rng(9)
    network = Network(
        3,
        (Layer("hidden", (6,), "relu"), Layer("top", (5,), "hard_sigmoid")),
        (
            InputConductance("g_in", "hidden", 2.0),
            Conductance("g", "hidden", "top", total=3.0),
            Bias("b", "top", 0.5),
        ),
        SoftmaxReadout("top", 3),
    )
    params = initial_params(network, rng, np.float64)
    params["b"][...] = rng.uniform(0.5, 3.0, 5)
    x, y = rng.standard_normal((4, 3)), np.eye(3)[rng.integers(3, size=4)]
    for make in BACKENDS.values():
        (found,) = measure_fidelity(
            make(network, params), x, y, {"implicit": implicit_gradient}, centered(1e-3)
        )
        assert found.relative_error < 1e-5, found


def test_what_meets_at_a_node_at_the_start_is_the_total() -> None:
    """On average: what 200 uniform conductances sum to is off by a twentieth at one of 15 nodes."""
    network = resistive((100, 30, 40), total=7.0)
    params = initial_params(network, np.random.default_rng(0), np.float64)
    for coupling in network.couplings:
        if isinstance(coupling, Conductance | InputConductance):
            ends = (0, 1) if isinstance(coupling, InputConductance) else 0
            at_each = params[coupling.name].sum(axis=ends)
            assert abs(at_each.mean() / coupling.total - 1.0) < 0.1
