"""A trained network as a circuit: SPICE and Verilog that agree with the engine."""
