"""A technology with a price for everything, and a run in which everything happened."""

from engine.model.network import Network
from hw_sim.counts import PHASES, OpCounts, WordCount
from hw_sim.events import KINDS, WAITS
from hw_sim.prices.bill import Bill, Design
from hw_sim.prices.machine import Machine, Resource
from hw_sim.prices.price import Price
from hw_sim.prices.technology import Technology
from tests.hw_sim.chips.hand_chip import NETWORKS

MEMORY = WordCount(states=50, weights=100, traces=300, cells=70)
MIXED = NETWORKS["mixed"]
ONE = Resource()
PLACES = ("low", "middle", "top", "readout", "border")


def price(name: str, number: int, scales: str = "none") -> Price:
    """A price of its own for every name, with a range that is uneven but in its logarithm."""
    value = float(2 + number)
    return Price(name, value, 0.4 * value, 2.5 * value, "", "", "", "", scales)


def technology(resource: Resource = ONE, bits: int = 8, leaks: bool = False) -> Technology:
    """Prices for everything, all different; energies scale in all the ways in turn.

    Waits take time alone.
    """
    scales = ("none", "weight", "state", "product")
    energy = {
        kind: price(kind, n, scales=scales[n % 4])
        for n, kind in enumerate(KINDS)
        if kind not in WAITS
    }
    latency = {kind: price(kind, 3 * n) for n, kind in enumerate(KINDS)}
    area = {name: price(name, 5 * n) for n, name in enumerate(("neuron", "memory_bit", "cell"))}
    endurance = {"weight_write": price("weight_write", 7)}
    power = {name: price(name, 2 * n) for n, name in enumerate(("chip", "neuron", "memory_bit"))}
    prices = {"energy": energy, "latency": latency, "area": area, "endurance": endurance}
    machine = Machine(dict.fromkeys(KINDS, resource), stated=True)
    prices["power"] = power if leaks else {}
    return Technology("mine", "Mine", "", bits, prices, machine)


def everything() -> OpCounts:
    """Some of every kind of event in every phase and at every place."""
    counts = OpCounts()
    for a, phase in enumerate(PHASES):
        for b, place in enumerate(PLACES):
            for c, kind in enumerate(KINDS):
                counts.add(phase, place, kind, 3 + a * 100 + b * 20 + c)
    return counts


def bill_of(tech: Technology, network: Network = MIXED, **design: int | bool) -> Bill:
    """A bill over everything."""
    held = Design(network, 12, 6, MEMORY, **design)  # type: ignore[arg-type]
    return Bill(tech, held, everything(), most_writes=40)


def plain_technology() -> Technology:
    """Few fixed prices in the sizes of 45 nm, for sums that are checked by hand."""
    energy = {
        "mac": Price("mac", 0.3e-12, 0.23e-12, 3.3e-12, "pJ", "", "", "", "product"),
        "activation": Price("activation", 1.25e-12, 0.07e-12, 2.5e-12, "pJ", "", "", "", "state"),
    }
    for kind in ("weight_read", "weight_write"):
        energy[kind] = Price(kind, 2.5e-12, 1.25e-12, 12.5e-12, "pJ", "", "", "", "weight")
    latency = {k: Price(k, 10e-9, 2e-9, 20e-9, "ns", "", "", "") for k in ("mac", "activation")}
    machine = Machine({"mac": Resource("unit"), "activation": Resource()})
    prices = {"energy": energy, "latency": latency, "power": {}, "area": {}, "endurance": {}}
    return Technology("plain", "Plain", "", 8, prices, machine)
