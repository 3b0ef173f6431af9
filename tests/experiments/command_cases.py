"""Every command, how it is called for a small piece of work, and where that work begins."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import experiments.addition.__main__ as addition
import experiments.benchmark.__main__ as benchmark
import experiments.circuit.__main__ as circuit
import experiments.circuit.train as circuit_train
import experiments.fuzz.__main__ as fuzz
import experiments.hardware.__main__ as hardware
import experiments.mutants.__main__ as mutants
import experiments.parity.__main__ as parity
import experiments.playground.__main__ as playground
import experiments.transformer.__main__ as transformer
import experiments.verify.__main__ as verify
import experiments.vision.__main__ as vision
from experiments.addition import command as addition_command
from experiments.addition import eqprop_command, log, training_command
from experiments.benchmark import command as benchmark_command
from experiments.contest import finish
from experiments.fuzz import command as fuzz_command
from experiments.hardware import command as hardware_command
from experiments.mutants import command as mutants_command
from experiments.playground import command as playground_command
from experiments.transformer import command as transformer_command
from experiments.verify import command as verify_command


@dataclass(frozen=True)
class Command:
    """A command; `work` is the function, as owner and name, that does what takes time."""

    main: Callable[[Sequence[str]], int]
    given: tuple[str, ...]
    work: tuple[object, str]
    out: str = "--out"


COMMANDS = {
    "parity": Command(parity.main, ("--data", "points.csv"), (finish, "_run")),
    "parity --tune": Command(parity.main, ("--data", "points.csv", "--tune"), (finish, "_run")),
    "vision": Command(vision.main, ("--data", "images.npz"), (finish, "_run")),
    "vision --tune": Command(vision.main, ("--data", "images.npz", "--tune"), (finish, "_run")),
    "hardware": Command(hardware.main, (), (hardware_command, "run_all")),
    "verify": Command(verify.main, (), (verify_command, "compile_kernels")),
    "transformer": Command(transformer.main, ("--quick",), (transformer_command, "_run")),
    "benchmark": Command(benchmark.main, ("--quick",), (benchmark_command, "run_parts")),
    "playground": Command(playground.main, (), (playground_command, "fit")),
    "fuzz": Command(fuzz.main, (), (fuzz_command, "_turns")),
    "mutants": Command(mutants.main, ("--sample", "1"), (mutants_command, "Campaign")),
    "circuit train": Command(circuit.main, ("train",), (circuit_train, "fit")),
    "addition train": Command(
        addition.main, ("train", "--run-name", "name"), (training_command, "train_all")
    ),
    "addition log": Command(addition.main, ("log", "--published", "model.pt"), (log, "train_all")),
    "addition evaluate": Command(
        addition.main, ("evaluate", "model.pt"), (addition_command, "benchmark"), "--output"
    ),
    "addition cell": Command(addition.main, ("cell",), (eqprop_command, "judge_cell")),
    "addition energy": Command(addition.main, ("energy",), (eqprop_command, "as_finished")),
}
