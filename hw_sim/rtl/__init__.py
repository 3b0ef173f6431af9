"""The digital chip as synthesisable Verilog, and a simulation that compares every word."""
