"""Reading: what a network says of inputs, with everything packed once for its parameters."""

from functools import cached_property

import numpy as np

from engine.arrays import BoolArray, FloatArray, IntArray
from engine.compiled.buffers import new_buffers, new_program, new_results
from engine.compiled.clamping import ClampedDrive
from engine.compiled.functions import activate
from engine.compiled.linking import solver_at
from engine.compiled.lowering import Tables, turns_of
from engine.compiled.products import add_product, new_edge
from engine.compiled.program import PACKED_OUT, Results, Stage
from engine.compiled.reading import softmax_errors
from engine.compiled.relaxation import relax_fixed_point
from engine.compiled.threads import row_blocks, run_blocks
from engine.equilibrium import Relaxation, divergence_of
from engine.model.params import Params

LOOKS = (0.05, 0.01)
"""Tolerances at which samples are looked at, whether their class is already certain."""
SLACK = 1e-5
"""What rounding may do to a norm, a distance or an output, relative to it."""


class NetworkReader:
    """What a network says of inputs that have been checked: outputs, and classes.

    All that does not depend on the inputs is made once, and nothing of it is written later: threads
    may share a reader. It holds for the parameters as they are when it is made.
    """

    def __init__(self, params: Params, tables: Tables, relaxation: Relaxation) -> None:
        self._params, self._tables, self._relaxation = params, tables, relaxation
        self._network = params.network
        self._program, self._clamped = new_program(params, tables), ClampedDrive(params)
        self._turns = turns_of(self._network, relaxation.solver, nudged=False)
        self._last_turn = int(self._turns.max())
        self._free = np.zeros(1, params.theta.dtype)
        self._work = self._clamped.macs + tables.work

    def outputs(self, x: FloatArray) -> FloatArray:
        """Return the outputs at the free equilibrium, `(samples, outputs)`."""
        if len(x) == 1:  # who asks for one waits for it
            return self._read(self._settled(self._drive(x), 0))
        found = np.empty((len(x), self._network.outputs), x.dtype)

        def read(rows: slice) -> None:
            found[rows] = self._read(self._settled(self._drive(x[rows]), rows.start))

        run_blocks(read, row_blocks(len(x), self._work))
        return found

    def classes(self, x: FloatArray) -> IntArray:
        """Return the class with the largest output, `(samples,)`.

        As soon as a look proves that no later step changes the class, the sample is done. Finding
        the norm for the proof costs as much as some steps of as many samples as there are units.
        """
        if len(x) < self._network.units or not self._contraction < 1.0:
            whole: IntArray = self.outputs(x).argmax(axis=1)
            return whole
        found = np.empty(len(x), np.int64)

        def read(rows: slice) -> None:
            found[rows] = self._decided(self._drive(x[rows]), rows.start)

        run_blocks(read, row_blocks(len(x), self._work))
        return found

    def _decided(self, drive: FloatArray, first: int) -> IntArray:
        """Return the classes of samples with this clamped drive, the number of one being known."""
        found, left = np.empty(len(drive), np.int64), np.arange(len(drive))
        held, begin = drive, None
        for tolerance in LOOKS:
            guess, certain, image = self._look(held, tolerance, begin)
            found[left[certain]] = guess[certain]
            left, held, begin = left[~certain], held[~certain], image[~certain]
            if not len(left):
                return found
        found[left] = self._read(self._settled(held, first, left)).argmax(axis=1)
        return found

    def _look(
        self, drive: FloatArray, tolerance: float, begin: FloatArray | None
    ) -> tuple[IntArray, BoolArray, FloatArray]:
        """Relax loosely; return the classes, which of them are certain, and the next states.

        With `rho` the norm of the recurrent coupling no later state, nor the equilibrium, is
        farther from `T(s)` than `rho / (1 - rho) |T(s) - s|`, and `s` itself than `|T(s) - s|`.
        Output `i` differs there, against the mean of all, by `|w_i - mean w|` times that at most.
        """
        ended, rho = self._relaxed(drive, tolerance, begin, for_drive=True), self._contraction
        image = np.empty_like(drive)
        activate(self._tables.layers, ended.drive + drive, image)
        moved = image - ended.state
        way = np.sqrt(np.einsum("ij,ij->i", moved, moved)) + SLACK * np.sqrt(image.shape[1])
        logits = self._logits(image)
        reach = (max(1.0, rho / (1.0 - rho)) * way)[:, None] * self._sway + SLACK * np.abs(logits)
        guess, rows = logits.argmax(axis=1), np.arange(len(logits))
        least, most = logits[rows, guess] - reach[rows, guess], logits + reach
        most[rows, guess] = -np.inf
        certain = (ended.residual <= np.float64(tolerance)) & (least > most.max(axis=1))
        return guess, certain, image

    @cached_property
    def _contraction(self) -> float:
        """A bound of the norm of the recurrent coupling, or one where no class can be proven.

        That takes plain steps of one layer, of which all outputs are read by one softmax.
        """
        network, relaxation = self._network, self._relaxation
        reading, links = network.reading, [network.links.get(c.name) for c in network.recurrent]
        plain = relaxation.damping == 1.0 and relaxation.tolerance < min(LOOKS)
        plain = plain and not network.squares  # their drive is divided before it is bent
        alone = len(network.layers) == 1 and network.outputs > 1
        if not (plain and alone and reading is not None and reading.positions == 1):
            return 1.0
        matrix = np.zeros((network.units, network.units))
        for link in links:
            if link is None or not (link.tied and link.whole):
                return 1.0
            matrix += self._params[link.block].reshape(matrix.shape)
        return float(np.abs(np.linalg.eigvalsh(matrix)).max()) * (1.0 + SLACK)

    @cached_property
    def _sway(self) -> FloatArray:
        """How far each output moves with the state, against the mean of all: `(outputs,)`."""
        reading = self._network.reading
        assert reading is not None
        assert reading.link is not None
        weight = self._params[reading.link.block]
        sway: FloatArray = np.linalg.norm(weight - weight.mean(axis=1, keepdims=True), axis=0)
        return sway

    def _drive(self, x: FloatArray) -> FloatArray:
        drive = self._clamped.new_room(len(x))
        self._clamped.write(x, drive)
        self._clamped.finish(x, drive)
        return drive

    def _settled(
        self, drive: FloatArray, first: int, numbers: IntArray | None = None
    ) -> FloatArray:
        """Return the free equilibria, or refuse what is not finite."""
        ended = self._relaxed(drive, self._relaxation.tolerance, None, for_drive=False)
        if not (np.isfinite(ended.residual).all() and np.isfinite(ended.state).all()):
            fine = np.isfinite(ended.residual) & np.isfinite(ended.state).all(axis=1)
            row = int(np.flatnonzero(~fine)[0])
            sample = first + (row if numbers is None else int(numbers[row]))
            raise divergence_of(sample, int(ended.steps[row]), 0.0)
        states: FloatArray = ended.state
        return states

    def _relaxed(
        self, drive: FloatArray, tolerance: float, begin: FloatArray | None, *, for_drive: bool
    ) -> Results:
        """Relax samples with this clamped drive, on one core and with buffers of their own."""
        network, dtype, count = self._network, drive.dtype, len(drive)
        if begin is None:
            begin = np.empty_like(drive)
            activate(self._tables.layers, drive, begin)
            for late in network.late(self._relaxation.solver):
                begin[:, network.columns[late]] = 0
        nothing, untold = drive[:0], np.empty((count, 0), dtype)
        turns = self._turns, self._last_turn
        stage = Stage(drive, untold, self._free, nothing, nothing, *turns, refresh=False)
        work = new_buffers(network, self._tables, count, dtype)
        ended = new_results(network, count, dtype, for_drive=for_drive, displaced=False)
        damping, most = dtype.type(self._relaxation.damping), self._relaxation.max_steps
        at = solver_at(self._program, stage, work, ended)
        whole = (*at, self._program, stage, begin, 0, work, damping, tolerance, most, ended)
        relax_fixed_point(*whole)
        return ended

    def _read(self, state: FloatArray) -> FloatArray:
        """Return the outputs of states, `(samples, outputs)`."""
        network = self._network
        reading, layer = network.reading, network.readout.layer
        if reading is None or reading.link is None:
            outputs: FloatArray = network.readout.predict(self._params, network.of(layer, state))
            return outputs
        rows = self._logits(state)
        nothing = np.zeros_like(rows)  # with which the errors `p - y` are `p`
        softmax_errors(rows, nothing, np.empty(len(rows), rows.dtype), 0, len(rows))
        return rows.reshape(len(state), -1)

    def _logits(self, state: FloatArray) -> FloatArray:
        """Return `s W + b` of every softmax, a row for each."""
        reading, network = self._network.reading, self._network
        assert reading is not None
        assert reading.link is not None
        inner, columns = reading.link.fan_in, reading.link.fan_out
        read = np.ascontiguousarray(network.of(network.readout.layer, state)).reshape(-1)
        rows = np.empty((len(state) * reading.positions, columns), state.dtype)
        rows[...] = self._params[reading.bias]
        packed = self._program.packed[self._program.readout[PACKED_OUT] :]
        shape = len(rows), inner, packed
        add_product(read, *shape, rows.reshape(-1), columns, columns, new_edge(rows.dtype))
        return rows
