"""The engine: networks that relax to a fixed point and learn by local updates.

Everything that a user needs is here: what a network is made of (layers, couplings, read-outs), the
builders of known ones, backends, estimators, training, prediction and checkpoints.
"""

from engine.backend import Backend
from engine.compiled.backend import NumbaBackend
from engine.couplings.attention import Attention, Hopfield
from engine.couplings.conductance import Conductance, InputConductance
from engine.couplings.convolution import ChannelBias, Convolution, InputConvolution
from engine.couplings.dense import Bias, Dense, InputDrive, Lateral
from engine.couplings.readout import SoftmaxReadout, SquaredError
from engine.couplings.skip import Skip
from engine.couplings.tokens import Embedding, Position, TokenReadout
from engine.equilibrium import Clamped, Equilibrium, Relaxation
from engine.errors import (
    CheckpointError,
    DivergenceError,
    EngineError,
    NudgeWarning,
    PoolingWarning,
)
from engine.learning.checkpoint import load, save
from engine.learning.estimator import centered, estimate, four_point, one_sided, symmetric
from engine.learning.optimizer import SGD, Adam
from engine.learning.predict import Predictor, evaluate, predict, predict_outputs, predict_proba
from engine.learning.spectral import SpectralCap, recurrent_norm
from engine.learning.training import Training, fit, train_step
from engine.model.builders import (
    conv_net,
    energy_transformer,
    layered,
    looped_mlp,
    residual_net,
    resistive,
)
from engine.model.network import Layer, Network
from engine.model.params import Params, initial_params

__all__ = [
    "SGD",
    "Adam",
    "Attention",
    "Backend",
    "Bias",
    "ChannelBias",
    "CheckpointError",
    "Clamped",
    "Conductance",
    "Convolution",
    "Dense",
    "DivergenceError",
    "Embedding",
    "EngineError",
    "Equilibrium",
    "Hopfield",
    "InputConductance",
    "InputConvolution",
    "InputDrive",
    "Lateral",
    "Layer",
    "Network",
    "NudgeWarning",
    "NumbaBackend",
    "Params",
    "PoolingWarning",
    "Position",
    "Predictor",
    "Relaxation",
    "Skip",
    "SoftmaxReadout",
    "SpectralCap",
    "SquaredError",
    "TokenReadout",
    "Training",
    "centered",
    "conv_net",
    "energy_transformer",
    "estimate",
    "evaluate",
    "fit",
    "four_point",
    "initial_params",
    "layered",
    "load",
    "looped_mlp",
    "one_sided",
    "predict",
    "predict_outputs",
    "predict_proba",
    "recurrent_norm",
    "residual_net",
    "resistive",
    "save",
    "symmetric",
    "train_step",
]
