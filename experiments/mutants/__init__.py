"""Mutation testing: small faults in the code that the tests must notice."""
