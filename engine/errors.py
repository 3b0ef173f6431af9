"""What can go wrong, as one sentence that names the object and the value."""


class EngineError(ValueError):
    """A description, an input or a setting that the engine refuses."""


class DivergenceError(EngineError):
    """A relaxation produced a number that is not finite."""


class NudgeWarning(UserWarning):
    """A beta so large that the estimated gradient may be wrong."""


class CheckpointError(EngineError):
    """A file that is not a complete checkpoint of this program."""
