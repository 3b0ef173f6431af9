"""The compiled backend: numba kernels, and the network as they read it."""
