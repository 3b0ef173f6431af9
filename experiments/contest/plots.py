"""The plots that the reports of contests share, each as PNG, SVG and SVG for a dark page."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import matplotlib
from matplotlib.figure import Figure as Drawing

from experiments.contest.bars import draw_accuracies, draw_gaps, draw_seconds
from experiments.contest.curves import draw_cosines, draw_learning_curves, draw_steps
from experiments.contest.metrics import R2
from experiments.contest.roster import Roster
from experiments.contest.runs import Runs
from experiments.contest.summary import ContestSummary
from experiments.reporting.picture import Picture, take_picture
from experiments.reporting.plot_style import STYLE


@dataclass(frozen=True)
class Plot:
    """A plot to be drawn; `draw` returns `None` where nothing was measured."""

    name: str
    title: str
    caption: str
    draw: Callable[[Roster, ContestSummary, Runs], Drawing | None]


GOAL_LINE = "The dotted line is the goal for EqProp. "
"""Left out of a caption where no task has a goal."""

PLOTS = (
    Plot(
        "gap",
        "Gap to backprop",
        "EqProp minus backprop, paired by seed. Bars are 95 % confidence intervals of the mean, "
        "grey areas the margins within which a gap does not matter.",
        lambda roster, summary, runs: draw_gaps(roster, summary),
    ),
    Plot(
        "accuracy",
        "Accuracy on the test part",
        "Mean and 95 % confidence interval (Student's t); small dots are the seeds. "
        f"{GOAL_LINE}Each panel has its own range.",
        lambda roster, summary, runs: draw_accuracies(roster, summary),
    ),
    Plot(
        "learning_curves",
        "Learning curves",
        "Test accuracy after each epoch: mean over seeds, and the range from the lowest to the "
        "highest seed. The first epochs may lie below the panel. The curves decide nothing: every "
        "run is scored after its last epoch.",
        lambda roster, summary, runs: draw_learning_curves(roster, runs),
    ),
    Plot(
        "relaxation_steps",
        "Relaxation steps",
        "Steps until the network settles, mean over the samples of an epoch: solid in the free "
        "phase, dotted in a nudged phase.",
        lambda roster, summary, runs: draw_steps(roster, runs),
    ),
    Plot(
        "gradient_cosine",
        "Gradient against autograd",
        "Cosine of the EqProp estimate with the gradient by autograd on a fixed batch, over "
        "training: mean over seeds and range. The axis is logarithmic in the distance from 1.",
        lambda roster, summary, runs: draw_cosines(roster, runs),
    ),
    Plot(
        "seconds_per_epoch",
        "Seconds per epoch",
        "Median over epochs and seeds, with quartiles. Runs share the cores of the machine, EqProp "
        "runs on compiled kernels and backprop on torch: the figure is about waiting, not about "
        "the cost of the algorithms.",
        lambda roster, summary, runs: draw_seconds(roster, runs),
    ),
)


def draw_plots(
    roster: Roster, summary: ContestSummary, runs: Runs, more: Iterable[Plot] = ()
) -> list[Picture]:
    """Draw every plot, and `more` of an experiment's own, for which there is something to draw."""
    pictures = []
    with matplotlib.rc_context(STYLE):
        for plot in (*PLOTS, *more):
            drawing = plot.draw(roster, summary, runs) if runs else None
            if drawing is not None:
                title, caption = (_fitting(t, roster, summary) for t in (plot.title, plot.caption))
                pictures.append(take_picture(plot.name, title, caption, drawing))
    return pictures


def _fitting(text: str, roster: Roster, summary: ContestSummary) -> str:
    """Return a text without goals where there are none, and about R² where that is the score."""
    if not any(task.name in roster.goals for task in summary.tasks):
        text = text.replace(GOAL_LINE, "")
    if {task.metric for task in summary.tasks} == {R2.name}:
        text = text.replace("Accuracy", "R²").replace("accuracy", "R²")
    return text
