"""The terms of the energy and of its cost: couplings, their links, and read-outs."""
