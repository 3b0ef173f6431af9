"""The engine: networks that relax to a fixed point and learn by local updates."""

from engine.backend import Backend, Clamped, Equilibrium, Relaxation
from engine.checkpoint import load, save
from engine.compiled import NumbaBackend
from engine.errors import CheckpointError, DivergenceError, EngineError, NudgeWarning
from engine.estimator import centered, estimate, four_point, one_sided, symmetric
from engine.network import Layer, Network, layered, looped_mlp
from engine.optimizer import SGD, Adam
from engine.params import Params, initial_params
from engine.predict import evaluate, predict, predict_outputs, predict_proba
from engine.spectral import SpectralCap, recurrent_norm
from engine.train import Training, fit, train_step
from engine.transformer import energy_transformer

__all__ = [
    "SGD",
    "Adam",
    "Backend",
    "CheckpointError",
    "Clamped",
    "DivergenceError",
    "EngineError",
    "Equilibrium",
    "Layer",
    "Network",
    "NudgeWarning",
    "NumbaBackend",
    "Params",
    "Relaxation",
    "SpectralCap",
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
