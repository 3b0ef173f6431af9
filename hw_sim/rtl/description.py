"""The text of the chip: modules that all networks share, and one that is wired for this one."""

import re
from collections.abc import Iterator
from importlib.resources import files

from engine.couplings.link import INPUT, ONE
from engine.model.activation import ACTIVATIONS
from hw_sim.chips.fixed_point import ODDS_FRACTION, formats
from hw_sim.rtl.plan import ERRORS, GAIN_BITS, BlockPlace, CoreRows, Plan

MODULES = (
    "saturate", "round_shift", "word_memory", "table_rom", "word_select", "core_logic",
    "neuron_core", "xorshift", "update_unit", "weight_walk", "activation_unit", "nudge_unit",
    "softmax_unit", "control",
)  # fmt: skip
"""Of every chip, each in a file of its name."""
CHIP = "settle_chip"
BENCH = "test_bench"
PLACE = re.compile(r"@[A-Z_]+@")
"""Where a number, or text, of the network stands."""


def chip_files(plan: Plan) -> dict[str, str]:
    """Return the design by the names of its files: Verilog, and the tables that it reads."""
    texts = {f"{name}.v": module_text(name) for name in MODULES}
    texts[f"{CHIP}.v"] = _chip(plan)
    words = formats(plan.config)
    for name in plan.activations:
        row = words.activations[ACTIVATIONS[name].code]
        texts[f"{name}.hex"] = hex_lines(row.tolist(), plan.config.state_bits)
    if not plan.direct:
        texts["exp.hex"] = hex_lines(words.odds.tolist(), ODDS_FRACTION + 1)
    return texts


def hex_lines(words: list[int], bits: int) -> str:
    """Return integers in two's complement, a line for each, as `$readmemh` takes them."""
    digits, mask = -(-bits // 4), (1 << bits) - 1
    return "".join(f"{word & mask:0{digits}x}\n" for word in words)


def module_text(name: str) -> str:
    """Return the Verilog of a file, with its places open."""
    return files("hw_sim.rtl").joinpath("verilog", f"{name}.v").read_text(encoding="utf-8")


def filled(text: str, values: dict[str, object]) -> str:
    """Put values where `@NAME@` stands."""
    for name, value in values.items():
        text = text.replace(f"@{name}@", str(value))
    assert not PLACE.search(text), "a place was not filled"
    return text


def parameters(plan: Plan) -> dict[str, object]:
    """Return the numbers that the chip and its test bench are made for."""
    config, network = plan.config, plan.network
    dropped = config.weight_fraction + config.state_fraction - config.table_fraction
    return {
        "INPUTS": network.inputs, "UNITS": network.units, "OUTPUTS": network.outputs,
        "FIRST": plan.first_read, "LAST": plan.last_read, "DIRECT": int(plan.direct),
        "CORES": plan.cores, "STATE": config.state_bits, "WEIGHT": config.weight_bits,
        "ACC": config.accumulator_bits, "WORD": plan.word_bits, "TARGET": plan.target_bits,
        "TRACE": plan.trace_bits, "FRACTION": config.weight_fraction, "ADDRESS": plan.address_bits,
        "DROPPED": dropped, "GAIN": GAIN_BITS, "PULL": plan.pull_bits, "HOST": plan.host_bits,
        "INDEX": plan.index_bits,
    }  # fmt: skip


def _chip(plan: Plan) -> str:
    sizes = "-".join(str(layer.size) for layer in plan.network.layers)
    ending = "" if plan.direct else f", read by a softmax of {plan.network.outputs}"
    layers = [*plan.layers, *([] if plan.direct else [plan.output_cores])]
    return filled(
        module_text("chip"),
        {
            **parameters(plan),
            "TITLE": f"A network of {plan.network.inputs} inputs and layers of {sizes}{ending}.",
            "BLOCKS": "\n".join(line for k in range(len(plan.blocks)) for line in _block(plan, k)),
            "LAYERS": "\n".join(_layer(plan, k, layer) for k, layer in enumerate(layers)),
            "TABLES": "\n".join(_tables(plan)),
            "READOUT": "\n".join(_read_out(plan)),
        },
    )


def _plain(name: str) -> str:
    """Return the name of a part of a network as a comment can hold it."""
    return re.sub(r"[^\w.-]", "_", name, flags=re.ASCII)


def _block(plan: Plan, number: int) -> Iterator[str]:
    """Write one entry of the map of the weights."""
    place: BlockPlace = plan.blocks[number]
    values = {
        "last_row": place.rows - 1, "last_column": place.columns - 1,
        "first_core": place.first_core, "base": place.base,
    }  # fmt: skip
    if place.copy:
        values |= {"copy_core": place.copy[0], "copy_base": place.copy[1]}
    flags = {
        "copied": place.copy is not None, "symmetric": place.symmetric,
        "is_read_out": place.read_out, "last_block": number == len(plan.blocks) - 1,
    }  # fmt: skip
    bits = plan.index_bits
    yield f"            {bits}'d{number}: begin  // {_plain(place.name)}"
    yield from (f"                {name} = {bits}'d{value};" for name, value in values.items())
    yield from (f"                {name} = 1'b1;" for name, flag in flags.items() if flag)
    yield "            end"


def _layer(plan: Plan, number: int, layer: CoreRows) -> str:
    outputs = layer is plan.output_cores
    names = ", ".join(f"{_plain(name)} from {first}" for name, (first, _) in layer.rows.items())
    text = filled(
        module_text("layer"),
        {
            "K": number, "NAME": _plain(layer.name), "SIZE": layer.size,
            "FIRST_CORE": layer.first_core,
            "FIRST_UNIT": layer.first_core, "LAST_UNIT": layer.first_core + layer.size - 1,
            "ROWS": layer.count, "OWNED": layer.owned, "ROW_NAMES": names,
            "HEARS": "\n".join(_hears(plan, number, layer)),
            "NEGATE": "1'b1" if outputs else "negate",
            "OWN_SIDE": "outputs_sent" if outputs else "~outputs_sent",
            "OWN_INDEX": "MINE - UNITS[INDEX-1:0]" if outputs else "MINE",
        },
    )  # fmt: skip
    return text.replace("else if (!to_outputs)", "else if (to_outputs)") if outputs else text


def _hears(plan: Plan, number: int, layer: CoreRows) -> Iterator[str]:
    """Write which row the sender of a word has in the cores of a layer."""
    bits, indent = plan.index_bits, 16 * " "
    kinds = {ONE: "ONE", INPUT: "INPUT", ERRORS: "ERROR"}
    units = [f"{indent}UNIT: begin"]
    for source, (base, count) in layer.rows.items():
        hears = f"begin hears_{number} = 1'b1; row_{number} ="
        if source in kinds:
            row = f"{bits}'d{base}" if source == ONE else f"index + {bits}'d{base}"
            yield f"{indent}{kinds[source]}: {hears} {row}; end"
            continue
        after = f"index - {bits}'d{plan.network.columns[source].start}"
        units.append(f"{indent}    if ({after} < {bits}'d{count})")
        units.append(f"{indent}        {hears} {after} + {bits}'d{base}; end")
    if len(units) > 1:
        yield from (*units, f"{indent}end")


def _tables(plan: Plan) -> Iterator[str]:
    """Write a table for each activation, and who of the units looks into which."""
    for name in plan.activations:
        yield f"    wire signed [STATE-1:0] from_{name};"
        yield f'    table_rom #(.WIDTH(STATE), .ADDRESS(ADDRESS), .FILE("{name}.hex")) {name} ('
        yield f"        .clk(clk), .read(looking), .address(address), .word(from_{name})"
        yield "    );"
    *others, last = plan.network.layers
    choice = f"from_{last.activation}"
    for layer in reversed(others):
        if len(plan.activations) > 1:
            end = f"{plan.index_bits}'d{plan.network.columns[layer.name].stop}"
            choice = f"found_index < {end} ? from_{layer.activation} :\n        {choice}"
    yield f"    assign looked_up = {choice};"


def _read_out(plan: Plan) -> Iterator[str]:
    if plan.direct:
        yield from (
            "    // The units are the outputs: there is no softmax.",
            "    assign output_index = {INDEX{1'b0}};",
            "    assign softmax_done = softmax_start & use_target;",
            "    assign error_seen = 1'b0;",
            "    assign error_word = {(STATE + 1){1'b0}};",
        )
        return
    yield module_text("read_out").rstrip()
