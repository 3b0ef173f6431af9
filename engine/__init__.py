"""The engine: networks that relax to a fixed point and learn by local updates."""
