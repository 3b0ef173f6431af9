"""The energy of a whole network and the map it relaxes by, as formulas for numpy and torch.

    E(s) = sum_u G(s_u) - Phi(s, x; theta)          F = E + beta C(s, y)
    T(s) = sigma(dPhi/ds - beta dC/ds)              s is an equilibrium when T(s) = s

`dPhi/ds` is the drive of the couplings. Where some are conductances, it also holds `-c s`, with the
stiffness `c` of every node. The minimum of `F` in one node, the others held, is then

    T(s)_u = sigma((dPhi/ds_u + c_u s_u - beta dC/ds_u) / (1 + c_u))

so that all drives are here times the compliance `1 / (1 + c)`, and without the part `-c s`.

As a displacement `d` from a state `s0` with the drive `h0 = dPhi/ds(s0)`, where that is linear:

    D(d) = sigma(h0 + dPhi/ds(d) - beta dC/ds(s0 + d)) - sigma(h0)

The compiled engine computes `T` by kernels of its own and is held to these formulas by the tests.
"""

from collections.abc import Collection, Mapping

from engine.arrays import Array, by_sample, namespace
from engine.couplings.coupling import Coupling
from engine.model.network import Network

Blocks = Mapping[str, Array]
"""Parameter blocks by name: a `Params`, or the same as torch tensors."""


def potential(network: Network, blocks: Blocks, x: Array, state: Array) -> Array:
    """`Phi` for every sample, `(samples,)`."""
    return sum(c.potential(blocks[c.name], x, *network.ends(c, state)) for c in network.couplings)


def energy(network: Network, blocks: Blocks, x: Array, state: Array) -> Array:
    """`E` for every sample, `(samples,)`."""
    convex = sum(
        by_sample(layer.rule.convex(network.of(layer.name, state))).sum(-1)
        for layer in network.layers
    )
    return convex - potential(network, blocks, x, state)


def cost(network: Network, blocks: Blocks, state: Array, y: Array) -> Array:
    """`C` for every sample, `(samples,)`."""
    return network.readout.cost(blocks, network.of(network.readout.layer, state), y)


def compliance(network: Network, blocks: Blocks) -> Array | None:
    """`1 / (1 + c)` of every unit, `(units,)`; `None` where no coupling is a conductance."""
    if not network.squares:
        return None
    total: dict[str, Array] = {}
    for name, squares in network.squares.items():
        for layer, part in zip(squares.layers, squares.stiffness(blocks[name]), strict=True):
            total[layer] = total[layer] + part if layer in total else part
    like = next(iter(total.values()))
    xp = namespace(like)
    parts = [
        1 / (1 + total[layer.name])
        if layer.name in total
        else xp.ones(layer.size, dtype=like.dtype, device=like.device)
        for layer in network.layers
    ]
    return xp.concatenate(parts)


def clamped_drive(network: Network, blocks: Blocks, x: Array) -> Array:
    """The part of dPhi/ds that the state does not change, `(samples, units)`."""
    parts: dict[str, Array] = {}
    for coupling in network.couplings:
        if coupling.clamped:
            _add(parts, coupling, coupling.drive(blocks[coupling.name], x))
    return eased(network, blocks, _join(network, parts, x))


def recurrent_drive(
    network: Network, blocks: Blocks, x: Array, state: Array, layers: Collection[str] | None = None
) -> Array:
    """The part of dPhi/ds that depends on the state, `(samples, units)`.

    With `layers` given it is that of these alone: what others get is only a part of theirs.
    """
    parts: dict[str, Array] = {}
    for coupling in network.recurrent:
        if layers is not None and not any(name in layers for name in coupling.layers):
            continue
        ends = network.ends(coupling, state)
        _add(parts, coupling, coupling.drive(blocks[coupling.name], x, *ends))
    return eased(network, blocks, _join(network, parts, state))


def nudge(network: Network, blocks: Blocks, state: Array, y: Array) -> Array:
    """dC/ds, `(samples, units)`: zero but for the layer that is read out."""
    readout = network.readout
    slope = by_sample(readout.nudge(blocks, network.of(readout.layer, state), y))
    return _join(network, {readout.layer: slope}, state)


def activate(network: Network, drive: Array) -> Array:
    """`sigma` of every layer, `(samples, units)`."""
    parts = {
        layer.name: by_sample(layer.rule.sigma(network.of(layer.name, drive)))
        for layer in network.layers
    }
    return _join(network, parts, drive)


def begin(network: Network, drive: Array, solver: str) -> Array:
    """State that a relaxation starts from if none is given: `sigma` of the clamped drive.

    Layers that are late (`Network.late`) are zero.
    """
    late = network.late(solver)
    parts = {
        layer.name: by_sample(layer.rule.sigma(network.of(layer.name, drive)))
        for layer in network.layers
        if layer.name not in late
    }
    return _join(network, parts, drive)


def step(
    network: Network,
    blocks: Blocks,
    x: Array,
    y: Array | None,
    state: Array,
    beta: float,
    clamped: Array,
) -> Array:
    """`T(s)`; `clamped` is `clamped_drive`, computed once for the batch."""
    return activate(network, whole_drive(network, blocks, x, y, state, beta, clamped))


def whole_drive(
    network: Network,
    blocks: Blocks,
    x: Array,
    y: Array | None,
    state: Array,
    beta: float,
    clamped: Array,
) -> Array:
    """What `T` activates: all drives and the nudge, `(samples, units)`."""
    drive = clamped + recurrent_drive(network, blocks, x, state)
    if beta != 0.0:
        drive = drive - beta * eased(network, blocks, nudge(network, blocks, state, y))
    return drive


def displaced_step(
    network: Network,
    blocks: Blocks,
    x: Array,
    y: Array | None,
    origin: Array,
    displacement: Array,
    beta: float,
    drive: Array,
) -> Array:
    """`D(d)`; `drive` is `h0`, clamped and recurrent, of the `origin`."""
    extra = recurrent_drive(network, blocks, x, displacement)
    if beta != 0.0:
        pull = nudge(network, blocks, origin + displacement, y)
        extra = extra - beta * eased(network, blocks, pull)
    return differ(network, drive, extra)


def differ(network: Network, drive: Array, extra: Array) -> Array:
    """`sigma(h + e) - sigma(h)` of every layer, `(samples, units)`."""
    parts = {
        layer.name: by_sample(
            layer.rule.difference(network.of(layer.name, drive), network.of(layer.name, extra))
        )
        for layer in network.layers
    }
    return _join(network, parts, drive)


def _add(parts: dict[str, Array], coupling: Coupling, drives: tuple[Array, ...]) -> None:
    for name, drive in zip(coupling.layers, map(by_sample, drives), strict=True):
        parts[name] = parts[name] + drive if name in parts else drive


def eased(network: Network, blocks: Blocks, drive: Array) -> Array:
    """Return the drive times the compliance of every unit."""
    given = compliance(network, blocks)
    return drive if given is None else drive * given


def _join(network: Network, parts: dict[str, Array], like: Array) -> Array:
    """Put layers side by side, `(samples, units)`; a layer without a part is zero.

    Zeros are in the library, precision and device of `like`.
    """
    xp = namespace(like)
    columns = []
    for layer in network.layers:
        if layer.name in parts:
            columns.append(parts[layer.name])
        else:
            columns.append(xp.broadcast_to(xp.zeros_like(like[:, :1]), (len(like), layer.size)))
    return columns[0] if len(columns) == 1 else xp.concatenate(columns, -1)
