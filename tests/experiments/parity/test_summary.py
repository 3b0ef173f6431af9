import math

import pytest

from experiments.contest import summary as contest_summary
from experiments.contest.runs import arrange_runs
from experiments.parity.goals import REFERENCES
from experiments.parity.roster import CIRCUIT, CONTESTANTS, CONTROLS, PARITY, TITLES
from experiments.statistics import Verdict
from experiments.tasks import TASKS
from tests.experiments.parity.parity_records import BEST, LEVELS, SEEDS, make_record, make_records


def levels(**changes: float) -> dict[str, float]:
    return LEVELS | changes


def summarise(records, best):
    return contest_summary.summarise(PARITY, records, best)


def task_of(summary, name):
    return next(task for task in summary.tasks if task.name == name)


def test_every_name_has_a_title_and_every_reference_is_a_task():
    assert set(TITLES) == {*CONTESTANTS, *CONTROLS, CIRCUIT}
    assert set(REFERENCES) == set(TASKS)


def test_margins_are_those_of_the_goals_and_a_default():
    assert PARITY.margin_of("mnist") == 0.002
    assert PARITY.margin_of("mine.csv") == 0.005


def test_scores_are_mean_and_sample_deviation():
    result = task_of(summarise(make_records(), BEST), "digits").results["eqprop_looped"]
    assert result.mean == pytest.approx(0.985)
    assert result.std == pytest.approx(0.0004)
    assert result.interval == pytest.approx((0.985 - 0.000994, 0.985 + 0.000994), abs=1e-6)
    assert list(result.accuracies) == list(SEEDS)


def test_tasks_follow_the_registry_whatever_the_order_of_the_records():
    records = make_records(("mine.csv", "cartpole", "digits"))
    assert [task.name for task in summarise(records, {}).tasks] == [
        "digits",
        "cartpole",
        "mine.csv",
    ]
    assert summarise(records[::-1], {}).tasks == summarise(records, {}).tasks
    assert list(arrange_runs(PARITY, records[::-1])["digits"]) == [
        name for name in TITLES if name != CIRCUIT
    ]


def test_validation_chooses_the_baseline_else_the_test_mean_does():
    summary = summarise(make_records(("digits", "cartpole")), {"digits": "backprop_feedforward"})
    chosen, fallback = summary.tasks
    assert (chosen.baseline, chosen.chosen_on) == ("backprop_feedforward", "validation")
    assert (fallback.baseline, fallback.chosen_on) == ("backprop_looped", "test")


def test_a_chosen_baseline_that_did_not_run_is_replaced():
    records = [r for r in make_records(["digits"]) if r.contestant != "backprop_looped"]
    (task,) = summarise(records, {"digits": "backprop_looped"}).tasks
    assert (task.baseline, task.chosen_on) == ("backprop_feedforward", "test")


@pytest.mark.parametrize(
    ("level", "verdict"),
    [
        (0.985, Verdict.EQUIVALENT),
        (0.96, Verdict.WORSE),
        (0.999, Verdict.BETTER),
    ],
)
def test_verdicts_flow_through(level, verdict):
    records = make_records(["digits"], levels(eqprop_looped=level))
    (task,) = summarise(records, BEST).tasks
    assert task.judgements["eqprop_looped"].verdict is verdict
    assert task.judgements["eqprop_layered"].verdict is Verdict.EQUIVALENT


def test_a_network_at_chance_is_never_parity_and_misses_its_goals():
    chance = dict.fromkeys(LEVELS, 0.5)
    (task,) = summarise(make_records(["digits"], chance), BEST).tasks
    assert task.judgements["eqprop_looped"].comparison.difference == 0.0
    assert task.judgements["eqprop_looped"].verdict is Verdict.AT_CHANCE
    assert task.gap_goal is False
    assert task.accuracy_goal is False


def test_goals_hold_at_their_edge_and_are_missed_below():
    goal = REFERENCES["digits"].goal
    for level, reached in ((goal, True), (goal - 1e-4, False)):
        (task,) = summarise(make_records(["digits"], levels(eqprop_looped=level)), BEST).tasks
        assert task.accuracy_goal is reached
    (task,) = summarise(make_records(["digits"], levels(eqprop_looped=0.9785)), BEST).tasks
    assert task.gap_goal is False


def test_a_users_task_has_no_goals():
    (task,) = summarise(make_records(["mine.csv"]), {}).tasks
    assert task.accuracy_goal is None
    assert task.gap_goal is None


def test_a_single_seed_shows_no_deviation_and_decides_nothing():
    (task,) = summarise(make_records(["digits"], seeds=(42,)), BEST).tasks
    assert math.isnan(task.results["eqprop_looped"].std)
    assert task.results["eqprop_looped"].interval is None
    assert task.judgements["eqprop_looped"].verdict is Verdict.UNDECIDED


def test_only_seeds_that_both_have_are_compared():
    records = [
        r
        for r in make_records(["digits"])
        if (r.contestant, r.seed) not in {("eqprop_looped", 44), ("backprop_feedforward", 42)}
    ]
    (task,) = summarise(records, BEST).tasks
    assert task.judgements["eqprop_looped"].comparison.seeds == 1
    assert task.judgements["eqprop_layered"].comparison.seeds == 2


def test_missing_runs_are_named():
    records = [
        r
        for r in make_records()
        if r.contestant != "flipped_sign"
        and (r.task, r.contestant) != ("digits", "backprop_looped")
        and (r.task, r.contestant, r.seed) != ("cartpole", "eqprop_layered", 43)
    ]
    assert summarise(records, BEST).missing == (
        "Tasks that were not run: MNIST, Fashion-MNIST, Acrobot-BC.",
        "Contestants that were not run: Sign flipped.",
        "Digits 8x8: no run of Backprop looped (BPTT).",
        "CartPole-BC: seed 43 of EqProp layered.",
    )


def test_what_cannot_be_compared_is_named():
    alone = make_records(["digits"], {"eqprop_looped": 0.98})
    assert "no backprop baseline" in summarise(alone, BEST).missing[-1]
    apart = [*alone, make_record("digits", "backprop_looped", 99, 0.98)]
    summary = summarise(apart, BEST)
    assert "for lack of a seed in common" in summary.missing[-1]
    assert summary.tasks[0].judgements == {}


def test_no_records_give_an_empty_summary():
    summary = summarise([], BEST)
    assert summary.tasks == ()
    assert summary.missing == ("No run has finished.",)


def test_returns_pool_the_clones_and_count_expert_and_random_once():
    task = task_of(summarise(make_records(), BEST), "cartpole")
    assert list(task.returns) == ["eqprop_looped", "expert", "random", *CONTESTANTS[1:]]
    assert task.returns["eqprop_looped"].episodes == 60
    assert task.returns["expert"].episodes == 60
    assert task.returns["expert"].mean == task.returns["expert"].median == 500.0
    assert task_of(summarise(make_records(), BEST), "digits").returns == {}


def test_settings_that_differ_between_seeds_are_all_kept():
    records = make_records(["digits"], {"eqprop_looped": 0.98})
    records[0].settings["lr"] = 0.1
    (task,) = summarise(records, BEST).tasks
    assert task.results["eqprop_looped"].settings["lr"] == (0.1, 0.002)
    assert task.results["eqprop_looped"].settings["hidden"] == (32,)
