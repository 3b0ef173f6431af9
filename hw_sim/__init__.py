"""Simulated hardware: substrates that count, prices, and bills."""
