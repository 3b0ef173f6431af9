"""The audit itself: no word is lost on the way through a calculation, and none is let off."""

import math
import operator
import types
from typing import Any

import numpy as np
import pytest

from engine.model.builders import layered, looped_mlp
from engine.model.network import Network
from engine.model.params import Params, initial_params
from hw_sim.audit.recording import Memory, Trace, Value, interpreted, number_of, recorded, words_of
from hw_sim.audit.rules import AuditError, Rules, check_constant_memory, check_locality
from hw_sim.audit.training_step import (
    NEURON_ARRAYS,
    audit_substrate,
    backprop_recorded,
    check_footprint,
    correlate_recorded,
    relax_recorded,
)
from hw_sim.chips import crossbar_kernels, event_kernels, real_kernels
from hw_sim.chips.crossbar import CrossbarBackend
from hw_sim.chips.digital import DigitalBackend
from hw_sim.chips.kernel_arguments import Registers
from hw_sim.chips.spiking import SpikingBackend
from hw_sim.chips.substrate import Substrate
from hw_sim.counts import Footprint

CHIPS = {"digital": DigitalBackend, "crossbar": CrossbarBackend, "spiking": SpikingBackend}
each_chip = pytest.mark.parametrize("make", CHIPS.values(), ids=CHIPS)
X, Y = np.random.default_rng(0).standard_normal((2, 2)), np.eye(2)
A, B = frozenset({("a", 1)}), frozenset({("b", 2)})
ARITHMETIC = (
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv,
    operator.lshift, operator.rshift, operator.and_, operator.xor,
)  # fmt: skip
COMPARISONS = (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)


@pytest.mark.parametrize("apply", ARITHMETIC)
def test_a_result_carries_the_words_of_both_sides(apply: Any) -> None:
    for left, right, words in (
        (Value(9, A), Value(2, B), A | B),
        (Value(9, A), 2, A),
        (9, Value(2, B), B),
    ):
        found = apply(left, right)
        assert number_of(found) == apply(9, 2)
        assert words_of(found) == words


@pytest.mark.parametrize("apply", COMPARISONS)
def test_a_comparison_is_that_of_the_numbers(apply: Any) -> None:
    for pair in ((1, 2), (2, 2), (3, 2)):
        expected = apply(*pair)
        assert apply(Value(pair[0], A), Value(pair[1], B)) is expected
        assert apply(Value(pair[0], A), pair[1]) is expected


def test_signs_and_functions_carry_words() -> None:
    for found, number in (
        (abs(Value(-3, A)), 3),
        (-Value(3, A), -3),
        (interpreted(real_kernels)["math"].tanh(Value(0.5, A)), math.tanh(0.5)),
        (interpreted(real_kernels)["math"].exp(Value(0.5, A)), math.exp(0.5)),
        (interpreted(real_kernels)["math"].log(Value(0.5, A)), math.log(0.5)),
        (interpreted(real_kernels)["math"].floor(Value(1.5, A)), 1),
    ):
        assert number_of(found) == number
        assert words_of(found) == A
    assert words_of(3.0) == frozenset()
    assert [10, 20][Value(1, A)] == 20


def test_kernels_of_other_files_are_interpreted_with_those_that_call_them() -> None:
    """`relax_events` calls `softmax_errors` of another file, which calls `math.exp`."""
    plain = interpreted(event_kernels)["softmax_errors"]
    assert isinstance(plain, types.FunctionType)
    assert plain.__globals__["math"] is interpreted(event_kernels)["math"]
    assert plain.__globals__["math"] is not math
    names = interpreted(crossbar_kernels)
    for name in ("read_tiles", "joins", "relax_crossbar"):
        assert isinstance(names[name], types.FunctionType)
    assert isinstance(names["read_tiles"].__globals__["add_row"], types.FunctionType)


def test_a_memory_records_reads_writes_and_the_words_of_an_index() -> None:
    trace = Trace()
    table = Memory("table", [[1.0, 2.0], [3.0, 4.0]], trace)
    where = Memory("where", [1], trace)
    found = table[where[0], 0]
    assert number_of(found) == 3.0
    assert words_of(found) == {("table", 1, 0), ("where", 0)}
    assert trace.touched == {("table", 1, 0), ("where", 0)}
    table[0, 1] = found * 2
    assert table.numbers().tolist() == [[1.0, 6.0], [3.0, 4.0]]
    assert trace.writes == [(("table", 0, 1), frozenset({("table", 1, 0), ("where", 0)}))]
    assert ("table", 0, 1) in trace.touched
    table.numbers()[0, 0] = 9.0  # a copy
    assert number_of(table[0, 0]) == 1.0


def test_a_tuple_is_recorded_but_for_its_plain_fields() -> None:
    work = Registers(np.zeros(1), np.zeros(2), np.zeros(3), 7)
    found = recorded(work, Trace(), plain=("logits",), prefix="my.")
    assert found.total.name == "my.total"
    assert found.image.shape == (2,)
    assert found.logits is work.logits
    assert found.error == 7


def _trace_of(synapse: tuple[Any, ...], *words: tuple[Any, ...]) -> Trace:
    return Trace(set(), [(synapse, frozenset(words))])


RULES = Rules(("g", "theta"), ("own",), ("source",), ("target",), ("table",))


@pytest.mark.parametrize(
    ("synapse", "word", "local"),
    [
        (("g", 1, 2), ("g", 1, 2), True),
        (("g", 1, 2), ("g", 2, 1), False),
        (("g", 1, 2), ("own", 1, 2), True),
        (("g", 1, 2), ("own", 1, 1), False),
        (("g", 1, 2), ("theta", 1, 2), False),
        (("g", 1, 2), ("source", 0, 1), True),
        (("g", 1, 2), ("source", 5, 1), True),
        (("g", 1, 2), ("source", 0, 2), False),
        (("g", 1, 2), ("target", 0, 2), True),
        (("g", 1, 2), ("target", 0, 1), False),
        (("g", 1, 2), ("table", 9, 9), True),
        (("g", 1, 2), ("elsewhere", 1, 2), False),
        (("g", 2), ("target", 0, 2), True),
        (("g", 2), ("source", 0, 2), False),
        (("theta", 2), ("own", 2), True),
    ],
)
def test_a_synapse_may_read_its_ends_its_own_words_and_constants(
    synapse: tuple[Any, ...], word: tuple[Any, ...], local: bool
) -> None:
    if local:
        assert check_locality(_trace_of(synapse, word), RULES) == 1
        return
    with pytest.raises(AuditError, match=rf"update of {synapse[0]}.* read {word[0]}"):
        check_locality(_trace_of(synapse, word), RULES)


def test_only_writes_of_synapses_are_judged_and_all_of_them_counted() -> None:
    trace = Trace(
        set(), [(("state", 0), frozenset({("far", 7)})), *[(("g", k), A) for k in (1, 2)]]
    )
    assert check_locality(trace, Rules(("g",), constants=("a",))) == 2


def test_memory_is_constant_or_the_first_word_that_grew_is_named() -> None:
    def run(steps: int, grows: bool) -> Trace:
        return Trace({("a", k) for k in range(3 + grows * steps)})

    assert check_constant_memory(lambda steps: run(steps, False), (1, 4)) == 3
    with pytest.raises(
        AuditError, match=r"with 4 steps in place of 1 .* grew by 3 words, .* a\[4\]"
    ):
        check_constant_memory(lambda steps: run(steps, True), (1, 4))


@each_chip
@pytest.mark.parametrize(
    "network", [looped_mlp(2, 3, 2), layered((2, 3, 2, 2))], ids=["one", "two"]
)
def test_the_working_set_by_hand(make: type[Substrate], network: Network) -> None:
    """Words of units, of outputs, of recurrent and read-out weights, tables, and one gradient."""
    params = initial_params(network, np.random.default_rng(1), np.float64)
    units, outputs = network.units, network.outputs
    read = network.sizes[network.readout.layer]
    recurrent = sum(network.blocks[c.name].size for c in network.recurrent)
    pairs = recurrent if len(network.layers) == 1 else 2 * recurrent  # read both ways
    words = {
        DigitalBackend: 4 * units + 3 * outputs + 2,
        CrossbarBackend: 4 * units + 3 * outputs,
        # state, image, drive, total, sent; target, error, logits twice, sent error; the pull
        SpikingBackend: 5 * units + 5 * outputs + read,
    }[make]
    audit = audit_substrate(make(network, params), X, Y)
    assert audit.working_set == words + pairs + read * outputs + outputs + network.size
    assert audit.synapse_writes == network.size * (2 if make is DigitalBackend else 1)


@each_chip
def test_every_word_that_is_taken_out_of_a_footprint_is_missed(make: type[Substrate]) -> None:
    network = looped_mlp(2, 3, 2)
    backend = make(network, initial_params(network, np.random.default_rng(1), np.float64))
    trace, _ = relax_recorded(backend, X, Y, 0.25, 2)
    held = backend.footprint
    check_footprint(trace, held)
    used = {NEURON_ARRAYS[name] for name in {w[0] for w in trace.touched} if name in NEURON_ARRAYS}
    assert {"state", "image", "drive", "total"} <= used <= set(held.neuron_words)
    for word in used:
        fewer = tuple(name for name in held.neuron_words if name != word)
        with pytest.raises(AuditError, match="which the footprint does not hold"):
            check_footprint(trace, Footprint(fewer, held.synapse_words, held.cells))
    with pytest.raises(AuditError, match=r"touched '(bias|messages.weights|readout.weights)'"):
        check_footprint(trace, Footprint(held.neuron_words, ("gradient",), ()))


@pytest.mark.parametrize(
    "network", [looped_mlp(2, 3, 2), layered((2, 3, 2, 2))], ids=["one", "two"]
)
def test_each_block_learns_from_the_states_of_its_two_ends(network: Network) -> None:
    state = np.arange(1.0, network.units + 1).reshape(1, -1)
    for name, block in network.blocks.items():
        coupling = next((c for c in network.couplings if c.name == name), None)
        ends = coupling.layers if coupling else (network.readout.layer, "output")
        trace, _ = correlate_recorded(network, name, state, X[:1], Y[:1])
        writes = dict(trace.writes)
        assert len(trace.writes) == block.size
        for (_, *place), words in writes.items():
            expected = {("gradient", *place), (ends[-1], 0, place[-1])}
            if len(place) == 2:
                clamped = coupling is not None and coupling.clamped
                expected.add(("input" if clamped else ends[0], 0, place[0]))
            assert words == expected


def test_a_write_depends_on_its_update_its_noise_and_itself() -> None:
    network = looped_mlp(2, 3, 2)
    backend = DigitalBackend(network, initial_params(network, np.random.default_rng(1), np.float64))
    before = backend.words.copy()
    trace = Trace()
    assert backend.record_update(np.full(network.size, 0.01), trace)
    np.testing.assert_array_equal(backend.words, before)  # on copies
    for (_, place), words in trace.writes:
        assert words == {("theta", place), ("update", place), ("noise", place)}
    assert len(trace.writes) == network.size


@pytest.mark.parametrize("steps", [0, 3])
def test_backprop_keeps_a_trajectory_and_reads_deltas(steps: int) -> None:
    network = looped_mlp(2, 3, 2)
    params = initial_params(network, np.random.default_rng(1), np.float64)
    trace = backprop_recorded(params, X, Y, steps)
    assert sum(word[0] == "trajectory" for word in trace.touched) == (steps + 1) * network.units
    writes = [words for address, words in trace.writes if address[0] == "gradient.W_in"]
    assert len(writes) == len(X) * network.blocks["W_in"].size
    assert all(any(word[0] == "delta_sum" for word in words) for words in writes)


@each_chip
def test_a_chip_that_declares_too_little_fails_the_audit(make: type[Substrate]) -> None:
    network = looped_mlp(2, 3, 2)

    class Modest(make):  # type: ignore[misc, valid-type]
        @property
        def footprint(self) -> Footprint:
            held = super().footprint
            fewer = tuple(name for name in held.neuron_words if name != "total")
            return Footprint(fewer, held.synapse_words, held.cells, held.tables)

    params = initial_params(network, np.random.default_rng(1), np.float64)
    with pytest.raises(AuditError, match="which the footprint does not hold"):
        audit_substrate(Modest(network, params), X, Y)


@each_chip
@pytest.mark.parametrize("steps", [2, 5])
def test_the_audit_takes_all_its_steps_even_at_rest(make: type[Substrate], steps: int) -> None:
    """An execution that stopped when it had settled would prove nothing of more steps."""
    network = looped_mlp(2, 3, 2)
    chip = make(network, Params(network, np.zeros(network.size)))
    trace, _ = relax_recorded(chip, np.zeros((1, 2)), np.array([[0.5, 0.5]]), 0.25, steps)
    written = [address for address, _ in trace.writes]
    for unit in range(3):
        assert written.count(("state", 0, unit)) == 1 + steps
