"""The kinds of events that are counted and priced, and their numbers in the tally of a kernel."""

KINDS = (
    "mac",
    "activation",
    "state_read",
    "state_write",
    "weight_read",
    "weight_write",
    "trace_read",
    "trace_write",
    "cell_read",
    "conversion",
    "message",
    "hop",
    "off_chip",
    "addition",
)
(
    MAC,
    ACTIVATION,
    STATE_READ,
    STATE_WRITE,
    WEIGHT_READ,
    WEIGHT_WRITE,
    TRACE_READ,
    TRACE_WRITE,
    CELL_READ,
    CONVERSION,
    MESSAGE,
    HOP,
    OFF_CHIP,
    ADDITION,
) = range(14)
