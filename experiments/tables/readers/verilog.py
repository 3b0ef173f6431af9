"""Rows of Verilog: the words that agree, and what gates take."""

from pathlib import Path

from experiments.tables.readers.outputs import Rows, read_output


def words_rows(folder: Path, command: str, root: Path) -> Rows:
    """Return the words that Verilog and the simulated chip were compared in, by kind."""
    rows = []
    for row in read_output(folder / "words.json", command)["rows"]:
        counts = [row["words"][kind] for kind in ("states", "errors", "ends", "weights")]
        counts += [row[name] for name in ("clipped", "cycles", "compared", "differ")]
        name = "as drawn" if row["name"] == "drawn" else f"`{row['name']}`"
        network = f"{name} {'-'.join(map(str, row['sizes']))}"
        rows.append((network, row["bits"], *(f"{count:,}" for count in counts)))
    return tuple(rows)


def logic_rows(folder: Path, command: str, root: Path) -> Rows:
    """Return what the logic of a core is and takes."""
    return _made(folder, command, "logic")


def products_rows(folder: Path, command: str, root: Path) -> Rows:
    """Return the price of a product in gates beside those of op-count tables."""
    return _made(folder, command, "products")


def _made(folder: Path, command: str, table: str) -> Rows:
    rows = read_output(folder / "verilog" / "gates.json", command)[table]
    return tuple(
        tuple(cell.replace("um2", "µm²").replace(" um", " µm") for cell in row) for row in rows
    )
