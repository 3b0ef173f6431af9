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
    "spike_out",
    "busy_update",
    "busy_spike",
    "busy_send",
    "busy_receive",
    "busy_synapse",
    "barrier",
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
    SPIKE_OUT,
    BUSY_UPDATE,
    BUSY_SPIKE,
    BUSY_SEND,
    BUSY_RECEIVE,
    BUSY_SYNAPSE,
    BARRIER,
) = range(21)
WAITS = KINDS[BUSY_UPDATE:]
"""What a step waits for: events that follow one another on its busiest core, and the barrier.

They take time and no energy: those of a core are counted under their own kinds, too."""
