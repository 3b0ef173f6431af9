"""Proofs: a scalar reference, stepwise comparison and independent gradients."""
