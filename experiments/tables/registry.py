"""What the tables of README and docs were measured by, and where they stand."""

from experiments.tables.known import circuits, contests, hardware, performance, sequences, verilog
from experiments.tables.measurement import Measurement, PageTable

ROOMS = (contests, hardware, circuits, verilog, performance, sequences)

MEASUREMENTS: dict[str, Measurement] = {
    name: measurement for room in ROOMS for name, measurement in room.MEASUREMENTS.items()
}
"""By name."""

TABLES: dict[str, PageTable] = {
    name: table for room in ROOMS for name, table in room.TABLES.items()
}
"""By the name of their markers."""
