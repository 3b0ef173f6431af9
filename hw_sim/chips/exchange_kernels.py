"""Steps of event-driven cores, compiled: what each core does, and which one the others wait for."""

from hw_sim.chips.kernel_compiler import kernel
from hw_sim.events import BARRIER, BUSY_UPDATE

UPDATES, SPIKES, SENDS, RECEIVES, SYNAPSES = range(5)  # rows of the work of cores
KINDS_OF_WORK = 5


@kernel
def begin_exchange(cores, updates):
    """Begin a step of all cores, in which each updates so many neurons."""
    for c in range(cores.work.shape[1]):
        cores.work[UPDATES, c] = updates[c]
        for kind in range(SPIKES, KINDS_OF_WORK):
            cores.work[kind, c] = 0


@kernel
def hear(cores, landing, sender):
    """Let every core with a listener take an event in; return how many there are."""
    first, last = landing.first[sender], landing.first[sender + 1]
    for row in range(first, last):
        cores.work[RECEIVES, landing.core[row]] += 1
        cores.work[SYNAPSES, landing.core[row]] += landing.synapses[row]
    return last - first


@kernel
def speak(cores, landing, sender, core):
    """Send an event of a neuron on `core` to all cores with a listener."""
    cores.work[SPIKES, core] += 1
    cores.work[SENDS, core] += hear(cores, landing, sender)


@kernel
def end_exchange(cores, times, tally):
    """Tally `times` over what the step waits for: the longest work of a core, and the barrier.

    A core sends while it receives, so its work is what it sends or what it receives.
    """
    longest, busiest, first = -1.0, 0, UPDATES
    for c in range(cores.work.shape[1]):
        sent, received = 0.0, 0.0
        for kind in range(KINDS_OF_WORK):
            cores.done[kind, c] += times * cores.work[kind, c]
        for kind in range(RECEIVES):
            sent += cores.work[kind, c] * cores.lengths_ns[kind]
        for kind in range(RECEIVES, KINDS_OF_WORK):
            received += cores.work[kind, c] * cores.lengths_ns[kind]
        if sent > longest:
            longest, busiest, first = sent, c, UPDATES
        if received > longest:
            longest, busiest, first = received, c, RECEIVES
    place, last = cores.place[busiest], RECEIVES if first == UPDATES else KINDS_OF_WORK
    for kind in range(first, last):
        tally[place, BUSY_UPDATE + kind] += times * cores.work[kind, busiest]
    tally[place, BARRIER] += times


@kernel
def tell_all(cores, units, products, times, tally):
    """Let every unit tell its whole state, and every core learn by so many `products (cores,)`."""
    begin_exchange(cores, cores.idle)
    for u in range(units):
        speak(cores, cores.landing, u, cores.home[u])
    for c in range(cores.work.shape[1]):
        cores.work[SYNAPSES, c] = products[c]
    end_exchange(cores, times, tally)
