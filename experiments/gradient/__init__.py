"""How near the gradient of a saved network comes to the exact one."""
