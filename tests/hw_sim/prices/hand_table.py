"""Energy reference tables as Accelergy writes them, with numbers of their own."""

from typing import Any


def action(name: str, energy: float, **arguments: float) -> dict[str, Any]:
    return {"name": name, "arguments": arguments or None, "energy": energy}


def component(name: str, *actions: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "actions": list(actions)}


def memory(name: str, read: float, write: float, leak: float = 0.01) -> dict[str, Any]:
    given = action("write", write), action("read", read), action("leak", leak)
    return component(name, *given, action("update", write))


VERSION_4: dict[str, Any] = {
    "version": "0.4",
    "tables": [
        memory("system_top_level.DRAM[1..1]", 512.0, 500.0),
        memory("system_top_level.shared_glb[1..1]", 18.0, 14.0),
        memory("system_top_level.ifmap_spad[1..168]", 0.25, 0.2),
        memory("system_top_level.weights_spad[1..168]", 2.0, 1.5),
        memory("system_top_level.psum_spad[1..168]", 0.5, 0.4),
        component("system_top_level.mac[1..168]", action("compute", 0.3), action("leak", 0.002)),
    ],
}
"""Of a machine with scratchpads, as Timeloop hands it over."""

VERSION_3: dict[str, Any] = {
    "version": 0.3,
    "tables": [
        component(
            "chip.PE[0..167].mac",
            action("mac_random", 4.0), action("mac_reused", 2.0), action("mac_gated", 1.0),
            action("idle", 0.0),
        ),
        component(
            "chip.weights_glb",
            *(
                action(name, base + 2 * address + 4 * data, address_delta=address, data_delta=data)
                for name, base in (("fill", 3.0), ("read", 4.0))
                for address in (0, 1)
                for data in (0, 1)
            ),
        ),
        component("chip.weights_NoC", action("transfer_random", 49.0)),
        memory("chip.ifmap_glb", 6.0, 5.0),
    ],
}  # fmt: skip
"""With arguments, and without memories of the other words."""

ANALOG: dict[str, Any] = {
    "version": "0.4",
    "tables": [
        memory("macro.input_buffer[1..1]", 3.0, 4.0),
        component("macro.adc[1..128]", action("convert", 1.5), action("leak", 0.0)),
        component("macro.row_dac[1..128]", action("drive", 0.5)),
        component("macro.cim_unit[1..16384]", action("compute", 0.002)),
        component("macro.multiplier[1..8]", action("multiply", 0.2)),
        component("macro.adder[1..8]", action("add", 0.1)),
    ],
}
"""Of an array between converters."""
