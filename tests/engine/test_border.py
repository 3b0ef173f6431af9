"""No call of the public API ends in anything but a result or one sentence."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import engine
from engine import (
    SGD,
    Adam,
    EngineError,
    Layer,
    Network,
    NumbaBackend,
    Params,
    Relaxation,
    SpectralCap,
    Training,
    centered,
    initial_params,
    looped_mlp,
)
from engine.border import checked
from engine.couplings.attention import Attention, Hopfield
from engine.couplings.dense import Bias, Dense, InputDrive, Lateral
from engine.couplings.readout import SoftmaxReadout, SquaredError
from engine.couplings.tokens import Embedding, Position, TokenReadout
from engine.errors import shown
from engine.learning.estimator import named_estimator
from engine.learning.run import Run

NETWORK = looped_mlp(3, 4, 2)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(6, 3)).astype(np.float32)
LABELS = np.array([0, 1, 0, 1, 0, 1])
Y = np.eye(2, dtype=np.float32)[LABELS]

ODD: list[Any] = [
    None,
    "text",
    "",
    "a\0b",
    3.5,
    -1,
    0,
    True,
    10**30,
    float("nan"),
    float("inf"),
    1j,
    b"x",
    object(),
    int,
    [],
    {},
    (1,),
    [None],
    {"a": 1},
    [[1, 2], [3]],
    np.float16(1),
    np.array("a"),
    np.array([1, 2]),
    np.zeros((0, 3)),
    np.zeros((2, 3, 4)),
    np.full((6, 3), 1e300),
    np.full((6, 3), 1j),
    np.ma.masked_array(np.zeros((6, 3)), mask=True),
    np.array([object()] * 3),
    NETWORK,
]

Call = tuple[Callable[..., Any], dict[str, Any]]


def _descriptions() -> dict[str, Call]:
    return {
        "looped_mlp": (looped_mlp, {"inputs": 3, "hidden": 4, "outputs": 2, "activation": "tanh"}),
        "layered": (
            engine.layered,
            {"sizes": (3, 4, 2), "activation": "tanh", "readout": "softmax"},
        ),
        "energy_transformer": (
            engine.energy_transformer,
            {"vocabulary": 4, "length": 3, "width": 4, "heads": 1, "head_size": 2, "outputs": 2}
            | {"memories": 1, "sharpness": 1.0, "sees_itself": True, "causal": False},
        ),
        "conv_net": (
            engine.conv_net,
            {"image": (5, 5, 1), "channels": (2,), "outputs": 2, "kernel": 3, "stride": 2}
            | {"activation": "tanh", "pooling": "none", "first_kernel": 3},
        ),
        "residual_net": (
            engine.residual_net,
            {"image": (5, 5, 1), "channels": (2, 2, 2), "outputs": 2, "kernel": 3, "stride": 1}
            | {"activation": "tanh", "pooling": "none", "first_kernel": 3},
        ),
        "Layer": (Layer, {"name": "a", "shape": (3,), "activation": "tanh"}),
        "Network": (
            Network,
            {"inputs": 3, "layers": NETWORK.layers, "couplings": NETWORK.couplings}
            | {"readout": NETWORK.readout},
        ),
        "InputDrive": (InputDrive, {"name": "a", "layer": "b"}),
        "Bias": (Bias, {"name": "a", "layer": "b", "start": 0.0}),
        "Dense": (Dense, {"name": "a", "source": "b", "target": "c", "gain": 0.5}),
        "Lateral": (Lateral, {"name": "a", "layer": "b", "gain": 0.5}),
        "Convolution": (
            engine.Convolution,
            {"name": "a", "source": "b", "target": "c", "kernel": 3, "stride": 1, "padding": 1}
            | {"gain": 0.5, "pooling": "mean", "groups": 2},
        ),
        "InputConvolution": (
            engine.InputConvolution,
            {"name": "a", "layer": "b", "image": (5, 5, 1), "kernel": 3, "stride": 1, "padding": 1}
            | {"pooling": "mean", "groups": 1},
        ),
        "Conductance": (
            engine.Conductance,
            {"name": "a", "source": "b", "target": "c", "amplification": 2.0, "total": 1.0}
            | {"g_min": 1e-6},
        ),
        "InputConductance": (
            engine.InputConductance,
            {"name": "a", "layer": "b", "amplification": 2.0, "total": 1.0, "g_min": 1e-6},
        ),
        "resistive": (
            engine.resistive,
            {"sizes": (3, 4, 2), "input_amplification": 4.0, "amplification": 1.0, "total": 1.0}
            | {"g_min": 1e-6},
        ),
        "Skip": (engine.Skip, {"name": "a", "source": "b", "target": "c", "gain": 0.25}),
        "ChannelBias": (
            engine.ChannelBias,
            {"name": "a", "layer": "b", "pixels": 9, "start": 0.0},
        ),
        "Embedding": (Embedding, {"name": "a", "layer": "b", "vocabulary": 3, "spread": 0.5}),
        "Position": (Position, {"name": "a", "layer": "b", "start": 0.0, "spread": 0.5}),
        "Attention": (
            Attention,
            {"name": "a", "layer": "b", "heads": 2, "head_size": 2, "sharpness": 1.0}
            | {"sees_itself": False, "causal": False, "gain": 0.2},
        ),
        "Hopfield": (Hopfield, {"name": "a", "layer": "b", "memories": 2}),
        "SoftmaxReadout": (SoftmaxReadout, {"layer": "a", "outputs": 2}),
        "SquaredError": (SquaredError, {"layer": "a"}),
        "TokenReadout": (TokenReadout, {"layer": "a", "outputs": 2}),
    }


def _settings() -> dict[str, Call]:
    return {
        "Relaxation": (
            Relaxation,
            {"max_steps": 3, "tolerance": 1e-3, "solver": "fixed_point", "damping": 1.0}
            | {"memory": 5},
        ),
        "SpectralCap": (
            SpectralCap,
            {"cap": 0.9, "every": 1, "method": "exact", "iterations": 5},
        ),
        "Adam": (Adam, {"lr": 1e-3, "decay1": 0.9, "decay2": 0.9, "eps": 1e-8}),
        "SGD": (SGD, {"lr": 1e-3, "momentum": 0.9}),
        "Training": (
            Training,
            {"epochs": 1, "batch_size": 3, "beta": 0.1, "estimator": "centered", "seed": 0}
            | {"free": Relaxation(), "nudged": Relaxation(), "optimizer": Adam(), "decay": {}}
            | {"schedule": "cosine", "cap": SpectralCap(), "frozen": (), "patience": None},
        ),
        "centered": (centered, {"beta": 0.1}),
        "one_sided": (engine.one_sided, {"beta": 0.1}),
        "four_point": (engine.four_point, {"beta": 0.1}),
        "symmetric": (engine.symmetric, {"beta": 0.1, "points": 4}),
        "named_estimator": (named_estimator, {"name": "centered", "beta": 0.1}),
    }


def _executions(folder: Path) -> dict[str, Call]:
    params = initial_params(NETWORK, np.random.default_rng(0))
    backend = NumbaBackend(NETWORK, params)
    batch, way = backend.clamp(X, Y), Relaxation(3)
    settled = backend.settle(batch)
    gradient, run = np.zeros(NETWORK.size, np.float32), Run.start(NETWORK, 2, np.float32, 0)
    data, path = {"backend": backend, "x": X}, folder / "saved.npz"
    engine.save(path, params)
    training = Training(epochs=1, batch_size=3)
    begun = {"clamped": batch, "start": settled.state}
    asked = {"relaxation": way, "batch_size": 4}
    return {
        "Params": (Params, {"network": NETWORK, "theta": params.theta}),
        "astype": (params.astype, {"dtype": np.float32}),
        "initial_params": (initial_params, {"network": NETWORK, "rng": RNG, "dtype": np.float32}),
        "NumbaBackend": (NumbaBackend, {"network": NETWORK, "params": params}),
        "clamp": (backend.clamp, {"x": X, "y": Y, "weights": np.ones(6)}),
        "relax": (backend.relax, begun | {"plan": (((0.1, -0.1), way),)}),
        "settle": (backend.settle, begun | {"beta": 0.1, "relaxation": way}),
        "accumulate": (
            backend.accumulate,
            {"clamped": batch, "equilibrium": settled, "gradient": gradient}
            | {"energy": 1.0, "cost": 1.0},
        ),
        "apply": (backend.apply, {"update": gradient}),
        "cost": (backend.cost, {"clamped": batch, "equilibrium": settled}),
        "predict of a backend": (backend.predict, {"equilibrium": settled}),
        "load of a backend": (backend.load, {"params": params}),
        "estimate": (
            engine.estimate,
            {"backend": backend, "clamped": batch, "estimator": centered(0.1)}
            | {"gradient": gradient, "free": way, "nudged": way, "start": settled.state},
        ),
        "update": (
            Adam().update,
            {"gradient": gradient, "memory": run.memory, "step": 0, "rate": 0.1},
        ),
        "fit": (
            engine.fit,
            data
            | {"y": LABELS, "training": training, "validation": (X, LABELS), "resume": False}
            | {"checkpoint": folder / "run.npz"},
        ),
        "train_step": (
            engine.train_step,
            data | {"y": Y, "training": training, "run": run, "total": 10, "start": None},
        ),
        "Predictor": (engine.Predictor, {"backend": backend, "batch_size": 4}),
        "predict": (engine.predict, data | asked),
        "predict_outputs": (engine.predict_outputs, data | asked),
        "predict_proba": (engine.predict_proba, data | asked),
        "evaluate": (engine.evaluate, data | asked | {"y": LABELS}),
        "save": (
            engine.save,
            {"path": folder / "other.npz", "params": params, "run": run, "settings": ""},
        ),
        "load": (engine.load, {"path": path}),
        "recurrent_norm": (engine.recurrent_norm, {"params": params}),
        "Run": (
            Run,
            {"memory": run.memory, "gradient": gradient, "vectors": run.vectors, "rng": run.rng},
        ),
        "Run.start": (
            Run.start,
            {"network": NETWORK, "moments": 2, "dtype": np.float32, "seed": 0},
        ),
    }


def _calls(folder: Path) -> dict[str, Call]:
    return _descriptions() | _settings() | _executions(folder)


def _odd_calls(name: str, folder: Path) -> Iterator[tuple[str, Any, Call]]:
    """Every argument of a call in turn replaced by every odd value; all else is made anew."""
    for argument in _calls(folder)[name][1]:
        for value in ODD:
            function, arguments = _calls(folder)[name]
            yield argument, value, (function, arguments | {argument: value})


NAMES = [
    *sorted(_descriptions() | _settings()),
    *("Params", "astype", "initial_params", "NumbaBackend", "clamp", "relax", "settle"),
    *("accumulate", "apply", "cost", "predict of a backend", "load of a backend"),
    *("estimate", "update", "fit", "train_step", "Predictor", "predict", "predict_outputs"),
    *("predict_proba", "evaluate", "save", "load", "recurrent_norm", "Run", "Run.start"),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_an_odd_argument_is_taken_or_refused_in_one_sentence(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # some texts are good names of files
    function, arguments = _calls(tmp_path)[name]
    function(**arguments)
    refused = 0
    for argument, value, (function, arguments) in _odd_calls(name, tmp_path):
        try:
            function(**arguments)
        except EngineError as error:
            refused += 1
            message = str(error)
            assert message.endswith("."), (argument, value)
            assert "\n" not in message, (argument, value)
        except Exception as error:
            pytest.fail(f"{argument} = {shown(value)}: {type(error).__name__}: {error}")
    assert refused > len(_calls(tmp_path)[name][1])


def test_everything_public_is_called(tmp_path: Path) -> None:
    abstract = {"Backend", "Clamped", "Equilibrium"}  # made by other calls
    errors = {name for name in engine.__all__ if name.endswith(("Error", "Warning"))}
    assert set(engine.__all__) - abstract - errors <= set(NAMES)
    assert set(NAMES) == set(_calls(tmp_path))


def test_a_refusal_names_the_call_the_argument_and_the_value() -> None:
    with pytest.raises(EngineError, match=r"^Relaxation: max_steps is '3', expected a whole num"):
        Relaxation("3")
    with pytest.raises(EngineError, match="x is an array of <U1, expected real numbers"):
        NumbaBackend(NETWORK, initial_params(NETWORK, RNG)).clamp([["a", "b", "c"]])


def test_annotations_are_the_border() -> None:
    @checked
    def call(
        count: int,
        names: tuple[str, ...] = (),
        pair: tuple[int, float] = (1, 1.0),
        table: dict[str, float] | None = None,
        *,
        choice: bool = False,
    ) -> int:
        return count

    assert call(3, ("a",), (1, 2), {"a": 1}, choice=np.True_) == 3
    wrong: list[dict[str, Any]] = [
        {"count": 2.0},
        {"count": True},
        {"names": ["a"]},
        {"names": ("a", 1)},
        {"pair": (1,)},
        {"pair": (1.5, 1.0)},
        {"table": {1: 1.0}},
        {"table": {"a": "b"}},
        {"choice": 1},
    ]
    for arguments in wrong:
        (name,) = arguments
        with pytest.raises(EngineError, match=f"^call: {name} is "):
            call(**{"count": 3} | arguments)
    with pytest.raises(TypeError):  # what Python says of any function
        call()
