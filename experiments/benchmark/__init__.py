"""How fast the engine is, as ratios inside one interleaved run."""
