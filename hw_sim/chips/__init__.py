"""Simulated chips: backends that count what they do."""
