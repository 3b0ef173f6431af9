"""The engine: networks that relax to a fixed point and learn by local updates.

Everything that a user needs is here: what a network is made of (layers, couplings, read-outs), the
builders of known ones, backends, estimators, training, prediction and checkpoints.
"""

from engine.attention import Attention, Hopfield
from engine.backend import Backend, Clamped, Equilibrium, Relaxation
from engine.checkpoint import load, save
from engine.compiled import NumbaBackend
from engine.coupling import Bias, Dense, InputDrive, Lateral
from engine.errors import CheckpointError, DivergenceError, EngineError, NudgeWarning
from engine.estimator import centered, estimate, four_point, one_sided, symmetric
from engine.network import Layer, Network, layered, looped_mlp
from engine.optimizer import SGD, Adam
from engine.params import Params, initial_params
from engine.predict import evaluate, predict, predict_outputs, predict_proba
from engine.readout import SoftmaxReadout, SquaredError
from engine.spectral import SpectralCap, recurrent_norm
from engine.tokens import Embedding, Position, TokenReadout
from engine.train import Training, fit, train_step
from engine.transformer import energy_transformer

__all__ = [
    "SGD",
    "Adam",
    "Attention",
    "Backend",
    "Bias",
    "CheckpointError",
    "Clamped",
    "Dense",
    "DivergenceError",
    "Embedding",
    "EngineError",
    "Equilibrium",
    "Hopfield",
    "InputDrive",
    "Lateral",
    "Layer",
    "Network",
    "NudgeWarning",
    "NumbaBackend",
    "Params",
    "Position",
    "Relaxation",
    "SoftmaxReadout",
    "SpectralCap",
    "SquaredError",
    "TokenReadout",
    "Training",
    "centered",
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
    "save",
    "symmetric",
    "train_step",
]
