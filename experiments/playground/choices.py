"""What the playground offers, without its work: tasks, and how drawings become their pictures."""

from dataclasses import dataclass

HIDDEN, EPOCHS = 64, 20
MOST_HIDDEN = 1024


@dataclass(frozen=True)
class View:
    """How the pictures of a task were made, in pixels."""

    size: int
    """Side of a picture."""
    box: int
    """Side of the square that a digit fills."""
    radius: float
    """Half the width of a stroke, at least."""
    ink: float | None
    """Mean of the pixels, where it is much the same in all pictures: strokes are widened to it."""
    full: float
    """Value of a pixel that is covered."""
    fine: int
    """Cells of a pixel, along each side, that are covered or not."""
    balanced: bool
    """Whether a digit stands in the middle with its mass; else with its bounds."""


VIEWS = {
    "digits": View(size=8, box=8, radius=0.7, ink=4.9, full=16.0, fine=4, balanced=False),
    "mnist": View(size=28, box=20, radius=1.2, ink=None, full=255.0, fine=4, balanced=True),
}
