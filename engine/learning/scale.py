"""Scale: where a network starts, and how fast its blocks change, so that a cap costs no accuracy.

A cap holds recurrent blocks far below the scale at which feed-forward networks start: signals fade
on their way up, and a step that suits a usual weight is a large part of a capped one. Two numbers a
block mend both. `calibrated` starts recurrent blocks just below the cap, and the input so strong
that the layer that is read has a root mean square of one. `relative_rates` lets a block change in
proportion to the size at which it starts.
"""

import numpy as np
import numpy.typing as npt

from engine.arrays import FloatArray, by_sample
from engine.border import checked
from engine.compiled.backend import NumbaBackend
from engine.couplings.link import INPUT, ONE, Link
from engine.equilibrium import Relaxation
from engine.errors import EngineError
from engine.learning.spectral import AUTO_CAP, bounded_norm, layer_radius
from engine.model.params import Params

START = 0.9
"""Share of the cap at which recurrent blocks start."""
SETTLING = Relaxation(500, 1e-5, "sweeps")


@checked
def calibrated(params: Params, x: npt.ArrayLike, cap: float = AUTO_CAP.cap) -> Params:
    """Return parameters at the right scale for inputs such as `x (samples, inputs)`.

    Units of relu have no scale of their own: their states grow in proportion to the input, which is
    set so that the layer that is read has the root mean square one. Other activations have one, and
    only their recurrent blocks are scaled.
    """
    found, network = params.copy(), params.network
    share = START * cap / layer_radius(network)
    for name, bound in network.bounds.items():
        norm = bounded_norm(bound, found[name])
        if norm > 0.0:
            found[name][...] *= share / norm
    if all(layer.activation == "relu" for layer in network.layers):
        size = _sizes(found, x)[network.readout.layer]
        if not size > 0.0:
            raise EngineError("the layer that is read stays silent on these inputs.")
        for link in _links_from(found, INPUT, ONE):
            found[link.block][...] /= size
    return found


@checked
def relative_rates(params: Params, x: npt.ArrayLike) -> dict[str, float]:
    """Return learning rates of blocks, relative to one of the usual scale, for `Training.rates`.

    A matrix of `fan_in` rows usually starts with a standard deviation of `sqrt(2 / fan_in)` (He et
    al., 2015): its rate is the share of that which it has. The rate of a bias is the root mean
    square of its layer, on inputs such as `x`. The read-out, outside the energy, keeps its rate.
    """
    sizes = _sizes(params, x)
    rates: dict[str, float] = {}
    for link in params.network.links.values():
        if link.source == ONE:
            rates[link.block] = sizes[link.target]
        else:
            usual = np.sqrt(2.0 / link.fan_in)
            rates[link.block] = _rms(params[link.block]) / float(usual)
    return {name: rate for name, rate in rates.items() if rate > 0.0}


def _links_from(params: Params, *sources: str) -> list[Link]:
    return [link for link in params.network.links.values() if link.source in sources]


def _sizes(params: Params, x: npt.ArrayLike) -> dict[str, float]:
    """Return the root mean square of every layer at the free equilibrium."""
    network = params.network
    backend = NumbaBackend(network, params)
    state: FloatArray = backend.settle(backend.clamp(x), relaxation=SETTLING).state
    return {layer.name: _rms(by_sample(network.of(layer.name, state))) for layer in network.layers}


def _rms(values: FloatArray) -> float:
    return float(np.sqrt(np.mean(np.square(values))))
