"""Ten-digit addition: a tiny transformer by backprop, and an adder by equilibrium propagation."""
