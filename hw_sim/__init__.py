"""Simulated hardware: chips that count, what events cost, rivals, and an audit."""
