"""Analog states: bills hold a crossbar for the time that was integrated, and the report says so."""

from dataclasses import replace

import numpy as np
import pytest

from experiments.hardware.contest import summarise
from experiments.hardware.cost_tables import settling_table
from experiments.hardware.job import Job, Outcome, network_of, run_job
from experiments.hardware.settings import Settings, changed
from experiments.tasks import find_task
from hw_sim.chips.settling import steps_of_relaxation
from hw_sim.counts import OpCounts
from hw_sim.prices.technology import shipped_technologies

SMALL = ["epochs=1", "looks=1", "hidden=8", "crossbar.read_noise=0", "tolerance=0.01"]


@pytest.fixture(scope="module")
def ran() -> tuple[Job, Outcome]:
    settings = changed(Settings(), [*SMALL, "crossbar.convert_each_step=false"])
    job = Job(find_task("digits"), "eqprop", "crossbar", 42, settings)
    return job, run_job(job)


def test_a_trained_network_says_how_long_it_takes(ran: tuple[Job, Outcome]) -> None:
    _, outcome = ran
    assert outcome.settling is not None
    assert outcome.settling.samples == 100
    assert 1.0 < outcome.settling.free < 60.0
    assert 0.5 < outcome.settling.nudged < 60.0
    clocked = replace(ran[0], settings=changed(Settings(), SMALL))
    assert run_job(clocked).settling is None


def test_bills_hold_cells_for_the_time_that_was_integrated(ran: tuple[Job, Outcome]) -> None:
    job, outcome = ran
    network, technologies = network_of(job), shipped_technologies()
    settling = outcome.settling
    assert settling is not None

    def inference(outcome: Outcome) -> float:
        networks = {"eqprop": network}
        summary = summarise("digits", [outcome], [], technologies, None, 0.0, networks)
        once = summary.costs[0].once
        held = once.latency_parts()["free", network.layers[0].name, "cell_read"]
        return held / once.technology.price("latency", "cell_read").value / outcome.n_test

    counted = dict(OpCounts.from_rows(tuple(row) for row in outcome.inference))
    steps = steps_of_relaxation(network, counted, "free")
    assert inference(outcome) == pytest.approx(settling.free)
    assert inference(replace(outcome, settling=None)) == pytest.approx(steps)
    assert abs(steps - settling.free) > 0.5


def test_the_report_says_where_the_time_comes_from(ran: tuple[Job, Outcome]) -> None:
    job, outcome = ran
    technologies = shipped_technologies()
    networks = {"eqprop": network_of(job)}
    summary = summarise("digits", [outcome], [], technologies, None, 0.0, networks)
    table = settling_table(summary, [technologies["rram_crossbar"], technologies["gpu"]])
    (row,) = table.rows
    assert outcome.settling is not None
    assert row[2] == f"{outcome.settling.free:.2f}"
    assert row[5] == f"{10 * outcome.settling.free:.3g} ns"
    assert row[-1] == "settling of an array, assumed"
    other = summarise(
        "digits", [replace(outcome, settling=None)], [], technologies, None, 0.0, networks
    )
    assert settling_table(other, list(technologies.values())).rows == ()
    assert np.isfinite(summary.costs[0].trained.latency_s)
