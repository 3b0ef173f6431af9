"""Samples a second: one after the other, and in a pipeline where the machine has one.

The stages of a machine are its kinds of work. One after the other, a sample takes the time of all
its stages. In a pipeline each stage works on another sample, so that a sample leaves whenever the
longest stage is done; all that a sample asks of a stage, in all its steps and places, is one turn.
Weights stay within a batch and change between batches: a pipeline fills anew for each batch, and
nothing overlaps with an update.
"""

from dataclasses import dataclass
from math import ceil

from hw_sim.prices.bill import Bill
from hw_sim.prices.schedule import UPDATE


@dataclass(frozen=True)
class Throughput:
    """Samples a second, and what bounds them."""

    alone: float
    """One sample after the other."""
    pipelined: float
    stage: str
    """The longest of the machine."""
    in_flight: int
    """Samples at once that a pipeline takes to be full, each with neuron words of its own."""


def stage_times(bill: Bill) -> dict[str, float]:
    """Return how long each stage works for all samples of a bill, updates left out."""
    times: dict[str, float] = {}
    for (phase, _, kind), time in bill.latency_parts().items():
        if phase != UPDATE:
            times[kind] = times.get(kind, 0.0) + time
    return times


def throughput(bill: Bill, samples: float) -> Throughput | None:
    """Return how many of its samples a bill takes in a second; `None` where nothing takes time.

    With `L` seconds for a sample, its longest stage `m`, `B` samples in a batch and `U` seconds for
    an update, a pipeline takes `(L - m) + B m + U` for a batch; without updates it stays full.
    """
    stages, whole = stage_times(bill), bill.latency_s
    if whole == 0.0:
        return None
    stage = max(stages, key=stages.__getitem__, default="")
    busy, longest = sum(stages.values()), stages.get(stage, 0.0)
    alone, updates = samples / whole, whole - busy
    if not bill.technology.machine.overlaps:
        return Throughput(alone, alone, stage, 1)
    batches = ceil(samples / bill.batch) if _learns(bill) else 0
    filling = batches * (busy - longest) / samples
    in_flight = ceil(busy / longest * (1 - 1e-12)) if longest else 1
    return Throughput(alone, samples / (longest + filling + updates), stage, in_flight)


def _learns(bill: Bill) -> bool:
    return any(phase == UPDATE for (phase, _, _), _ in bill.counts)
