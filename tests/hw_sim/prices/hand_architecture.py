"""An architecture as SANA-FE describes it, with a number of its own for everything."""

from typing import Any


def unit(model: str = "a", **costs: float) -> dict[str, Any]:
    return {"name": "unit", "attributes": {"model": model} | costs}


def soma(model: str, factor: float) -> dict[str, Any]:
    costs = {
        f"{what}_{part}": factor * value * scale
        for what, scale in (("energy", 1e-12), ("latency", 1e-9))
        for part, value in (("access_neuron", 5.0), ("update_neuron", 2.0), ("spike_out", 7.0))
    }
    return unit(model, **costs)


CHIP: dict[str, Any] = {
    "name": "mine",
    "attributes": {"sync_model": "table", "latency_sync": {2: 3e-7, 1: 1e-7}},
    "tile": [
        {
            "name": "tile[0..1]",
            "attributes": {
                f"energy_{way}_hop": cost * 1e-12
                for way, cost in (("north", 4.0), ("south", 4.0), ("east", 2.0), ("west", 2.0))
            },
            "core": [
                {
                    "attributes": {"buffer_position": "soma"},
                    "axon_in": [unit(energy_message_in=1e-12, latency_message_in=2e-9)],
                    "synapse": [
                        unit(energy_process_spike=20e-12, latency_process_spike=3e-9),
                        unit(energy_process_spike=10e-12, latency_process_spike=5e-9),
                    ],
                    "dendrite": [unit(energy_update=1e-12, latency_update=1e-9)],
                    "soma": [soma("lif", 1.0), soma("lif", 2.0), soma("input", 0.0)],
                    "axon_out": [unit(energy_message_out=11e-12, latency_message_out=4e-9)],
                }
            ],
        }
    ],
}
