from dataclasses import replace

from experiments.contest import summary as contest_summary
from experiments.contest.report_content import lead_sentences
from experiments.contest.seeds_needed import span_text
from experiments.parity.roster import PARITY
from experiments.planning import plan_seeds
from experiments.statistics import Verdict
from tests.experiments.parity.parity_records import LEVELS, make_record, make_records


def noisy(gap, metric="accuracy", seeds=(42, 43, 44, 45), wobble=0.01):
    """EqProp off by `gap` in the mean, and by more to one side or the other."""
    found = []
    for seed in seeds:
        for name in LEVELS:
            shift = gap + (wobble if seed % 2 else -wobble) if name == "eqprop_looped" else 0.0
            found.append(make_record("mine.csv", name, seed, 0.9 + shift, n_test=1000))
    if metric == "r2":
        return [replace(record, metric=metric, p_chance=1e-4) for record in found]
    return found


def said(records, looks=1):
    summary = contest_summary.summarise(PARITY, records, {}, looks)
    return summary, lead_sentences(PARITY, summary)


def test_an_undecided_verdict_says_how_many_seeds_would_decide():
    summary, sentences = said(noisy(0.001))
    case = summary.tasks[0].judgements["eqprop_looped"]
    assert case.verdict is Verdict.UNDECIDED
    plan = plan_seeds(case.comparison)
    (sentence,) = [text for text in sentences if "would be decided" in text]
    assert sentence == (
        "mine.csv would be decided: a gap of +0.10 with a spread of 1.15 is shown to be within "
        f"±0.50 by {plan.equivalence} seeds, to differ from zero by {plan.difference:,}."
    )
    assert "if gap and spread stay as measured" in sentences[-1]
    assert "after correction" not in sentences[-1]


def test_looks_ask_for_more_seeds_and_say_so():
    once, often = (said(noisy(0.001), looks)[1] for looks in (1, 5))
    assert once[-2] != often[-2]
    assert "tests at 5% after correction" in often[-1]


def test_r2_has_its_own_units():
    sentences = said(noisy(0.03, "r2", wobble=0.04))[1]
    assert any("a gap of +0.030 with a spread of 0.046" in text for text in sentences)
    assert any("within ±0.020 by no number of seeds" in text for text in sentences)


def test_what_is_decided_needs_no_seeds():
    sentences = said(make_records(["digits"]))[1]
    assert not any("would be decided" in text for text in sentences)
    assert sentences[-1] == "Seeds: 42, 43, 44."


def test_a_single_seed_asks_for_a_second():
    assert said(noisy(0.001, seeds=(42,)))[1][-1] == (
        "mine.csv: a second seed is needed to know a spread."
    )


def test_seeds_are_a_span_or_a_list_or_differ_by_task():
    assert span_text([45, 42, 43, 44]) == "42 to 45"
    assert span_text([42, 43, 44, 46]) == "42, 43, 44, 46"
    records = make_records(["digits"], seeds=(42, 43, 44, 45)) + make_records(["cartpole"])
    assert said(records)[1][-1] == "Seeds: 42 to 45 on Digits 8x8; 42, 43, 44 on CartPole-BC."
