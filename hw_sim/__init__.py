"""Reserved for simulated hardware; empty so far."""
