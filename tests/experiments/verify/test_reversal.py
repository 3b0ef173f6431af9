"""The track of the equilibrium transformer fails on wrong tokens, leaks and bad gradients."""

from dataclasses import replace

import numpy as np
import pytest

from experiments.transformer.measures import Answers, Moment, Multistability
from experiments.transformer.outcomes import TransformerOutcome
from experiments.transformer.sequences import TEST, draw_sequences
from experiments.transformer.training import training_batches
from experiments.verify.track import Size, Status, TrackSize
from experiments.verify.track_outcomes import run_track
from experiments.verify.tracks import sequence_reversal
from experiments.verify.tracks.sequence_reversal import FULL_UPDATES, TRACK


def run(size):
    return run_track(replace(TRACK, sizes=dict.fromkeys(TrackSize, size)), TrackSize.QUICK)


def missed(outcome):
    return [check.name for check in outcome.finding.checks if not check.held]


@pytest.fixture
def made_up(monkeypatch):
    """Let every training have given errors."""

    def put(wrong=0, unsettled=0, cosine=0.999):
        def outcome_of(job):
            tokens = job.settings.length * job.settings.test_sequences
            answers = Answers(tokens, wrong, tokens // 8, unsettled, 1e-6, (30.0, 40.0, 50.0))
            moments = tuple(
                Moment(k, 0.1, 1.0, c, 0.0, 30, 10, 0) for k, c in enumerate((1.0, cosine))
            )
            return TransformerOutcome(
                job.task, job.method, job.seed, job.settings.as_dict(), 100, answers, answers,
                Multistability(50, 5, 1, 0, 0), (((0.0, 1.0), (1.0, 0.0)),) * 2, moments, 1.0,
            )  # fmt: skip

        monkeypatch.setattr(sequence_reversal, "run_job", outcome_of)
        monkeypatch.setattr(sequence_reversal, "_picture", lambda outcome: None)

    return put


@pytest.mark.parametrize(
    ("given", "status", "words"),
    [
        ({}, Status.PASSED, []),
        ({"wrong": 1}, Status.PARTIAL, ["(goal)"]),
        ({"wrong": 2000}, Status.FAILED, ["at equilibrium", "(goal)"]),
        ({"unsettled": 1}, Status.PARTIAL, ["(goal)"]),
        ({"unsettled": 100}, Status.FAILED, ["at equilibrium", "(goal)"]),
        ({"cosine": 0.9}, Status.PARTIAL, ["cosine"]),
        ({"cosine": float("nan")}, Status.PARTIAL, ["cosine"]),
    ],
)
def test_wrong_tokens_decide(given, status, words, made_up):
    made_up(**given)
    outcome = run(Size(2, 3))
    assert outcome.status is status
    assert len(missed(outcome)) == len(words)
    assert all(word in name for word, name in zip(words, missed(outcome), strict=True))


@pytest.mark.parametrize(
    ("given", "missed_goals"),
    [
        ({}, []),
        ({"wrong": 1}, ["Vocabulary 10"]),
        ({"unsettled": 1}, ["Vocabulary 10"]),
        ({"wrong": 9}, ["Vocabulary 10", "Vocabulary 50"]),
        ({"cosine": 0.98}, ["Smallest cosine"]),
    ],
)
def test_in_a_full_run_the_goals_decide(given, missed_goals, made_up, monkeypatch):
    made_up(**given)
    monkeypatch.setattr(sequence_reversal, "count_seen", lambda job: 0)
    outcome = run(Size(1, FULL_UPDATES))
    assert outcome.status is (Status.FAILED if missed_goals else Status.PASSED)
    found = missed(outcome)
    assert all("(goal)" in name for name in found)
    assert all(n.startswith(start) for n, start in zip(found, missed_goals, strict=True))


def test_a_test_sequence_that_was_trained_on_is_found(made_up, monkeypatch):
    def leaked(settings, seed):
        *_, last = training_batches(settings, seed)
        fresh = draw_sequences(np.random.default_rng(9), TEST, 10, 10, 8)
        return np.concatenate([fresh, last[-1:]])

    made_up()
    monkeypatch.setattr(sequence_reversal, "held_out", leaked)
    outcome = run(Size(1, 3))
    assert outcome.status is Status.FAILED
    assert missed(outcome) == ["Test sequences that an update has seen"]
    assert outcome.finding.checks[0].measured == 1


def test_the_full_size_adds_the_large_vocabulary_and_backprop():
    jobs = sequence_reversal.list_jobs(Size(1, FULL_UPDATES))
    kinds = [(job.method, job.settings.vocabulary) for job in jobs]
    assert kinds == [("eqprop", 10), ("eqprop", 50), ("backprop", 10)]
    assert {job.settings.test_sequences for job in jobs} == {10_000}
    (small,) = sequence_reversal.list_jobs(Size(1, 3))
    assert small.settings.updates == 3


def test_a_network_that_has_hardly_learned_fails(monkeypatch):
    """No number is made up here: two updates, then real answers."""

    def tiny(settings):
        return replace(settings, test_sequences=20, restarted=2, restarts=1, measured=1, batch=8)

    monkeypatch.setattr(sequence_reversal, "_shortened", tiny)
    outcome = run(Size(1, 2))
    assert outcome.status is Status.FAILED
    share = next(c for c in outcome.finding.checks if "smallest share" in c.name).measured
    assert share < 0.5
    assert len(outcome.finding.pictures[0].png) > 0
