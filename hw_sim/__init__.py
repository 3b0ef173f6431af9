"""Substrates: backends that count what they do, and what those counts cost."""
