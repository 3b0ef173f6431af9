"""The command on a tiny network: what it writes, how it resumes, and how it refuses."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from experiments.transformer import __main__ as command
from experiments.transformer import training
from experiments.transformer.measures import examine, held_out, measure_moment
from experiments.transformer.records import Outcome, load_outcome, run_job, save_outcome
from experiments.transformer.sequences import TASKS, TEST, TRAINING, parts_of
from experiments.transformer.settings import GOAL_TOKENS, GOALS, Settings, settings_for
from experiments.transformer.summary import arrange
from experiments.transformer.training import BACKPROP, EQPROP, Job, train

TINY = Settings(
    vocabulary=3,
    length=5,
    width=8,
    updates=3,
    batch=8,
    test_sequences=20,
    restarted=4,
    restarts=2,
    measured=1,
)


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Outcome]:
    return {method: run_job(Job("reversal", method, 42, TINY)) for method in (EQPROP, BACKPROP)}


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    def settings(vocabulary: int, length: int, quick: bool) -> Settings:
        return replace(TINY, vocabulary=vocabulary, length=length)

    monkeypatch.setattr(command, "settings_for", settings)


def _call(folder: Path, *options: str) -> int:
    tiny = ["--vocab", "3", "--length", "5", "--seeds", "1", "--workers", "1"]
    return command.main([*tiny, *options, "--out", str(folder)])


def test_an_outcome_is_read_back_as_it_was(tmp_path: Path, outcomes: dict[str, Outcome]) -> None:
    save_outcome(tmp_path, "one", outcomes[EQPROP])
    assert load_outcome(tmp_path / "one.json") == outcomes[EQPROP]
    (tmp_path / "one.json").write_text("{}", encoding="utf-8")
    assert load_outcome(tmp_path / "one.json") is None
    assert load_outcome(tmp_path / "two.json") is None


def test_both_methods_start_alike_and_see_the_same_sequences(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: dict[str, list[np.ndarray]] = {EQPROP: [], BACKPROP: []}
    for method, batches in seen.items():
        step = f"_step_{method}"
        real = getattr(training, step)

        def spy(backend, x, *rest, real=real, batches=batches):  # type: ignore[no-untyped-def]
            batches.append(x)
            return real(backend, x, *rest)

        monkeypatch.setattr(training, step, spy)
        train(Job("reversal", method, 42, TINY))
    assert len(seen[EQPROP]) == TINY.updates
    for one, other in zip(seen[EQPROP], seen[BACKPROP], strict=True):
        np.testing.assert_array_equal(one, other)
        assert (parts_of(one) == TRAINING).all()
    assert (parts_of(held_out(TINY, 42)) == TEST).all()


def test_at_the_start_the_estimated_gradient_is_that_of_autograd() -> None:
    job = Job("reversal", EQPROP, 42, replace(TINY, updates=1))
    first = train(job).curve[0]
    assert first.update == 0
    assert first.cosine > 0.999


def test_training_by_either_method_lowers_the_cost() -> None:
    longer = replace(TINY, updates=60, batch=16)
    for method in (EQPROP, BACKPROP):
        first, last = train(Job("copy", method, 42, longer)).curve
        assert last.cost < 0.7 * first.cost
        assert last.accuracy > first.accuracy


def test_wrong_answers_are_counted_token_by_token() -> None:
    backend = train(Job("reversal", EQPROP, 42, TINY)).backend
    x = held_out(TINY, 42)
    readout = backend.network.readout
    settled = backend.relax(backend.clamp(x), relaxation=TINY.settled)
    given = readout.read(backend.predict(settled))
    assert examine(backend, x, given, TINY.settled).wrong == 0
    other = given.copy()
    other[3, 2] += 1
    other[7] += 1
    found = examine(backend, x, other, TINY.settled)
    assert (found.wrong, found.tokens, found.unsettled) == (1 + TINY.length, x.size, 0)
    assert found.residual <= 1e-5
    hurried = examine(backend, x, other, replace(TINY.settled, max_steps=1))
    assert hurried.unsettled == len(x)


def test_a_moment_is_measured_on_sequences_of_the_validation_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    backend = train(Job("reversal", EQPROP, 42, TINY)).backend
    real, seen = backend.clamp, []

    def clamp(x, y=None):  # type: ignore[no-untyped-def]
        seen.append(x)
        return real(x, y)

    monkeypatch.setattr(backend, "clamp", clamp)
    measure_moment(backend, TINY, TASKS["reversal"], 42, 0)
    assert {str(p) for x in seen for p in parts_of(x.astype(np.int64))} == {"validation"}


@pytest.mark.usefixtures("tiny")
def test_the_command_writes_its_report_and_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _call(tmp_path) == 0
    said = capsys.readouterr().out
    assert "Reversal, 3 tokens, length 5" in said
    names = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert {"report.md", "report.html", "results.json", "attention.png", "attention.svg"} <= names
    results = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert [run["method"] for run in results["runs"]] == [EQPROP, BACKPROP]
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<script" not in page

    def fail(*_: object) -> None:
        raise AssertionError("a finished run was repeated")

    monkeypatch.setattr(command, "run_job", fail)
    assert _call(tmp_path) == 0
    assert "2 of 2 runs were done before" in capsys.readouterr().out


@pytest.mark.usefixtures("tiny")
def test_an_interruption_keeps_what_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = command.run_job

    def stop_at_backprop(job: Job, watch: object) -> Outcome:
        if job.method == BACKPROP:
            raise KeyboardInterrupt
        return real(job, watch)

    monkeypatch.setattr(command, "run_job", stop_at_backprop)
    assert _call(tmp_path) == 130
    assert "Finished runs are kept" in capsys.readouterr().out
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["reversal-3x5-eqprop-42.json"]
    assert not (tmp_path / "report.md").exists()


@pytest.mark.usefixtures("tiny")
def test_what_cannot_be_done_is_said_in_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _call(tmp_path, "--task", "riddle") == 2
    assert "there is no task 'riddle'; known: reversal" in capsys.readouterr().out
    assert command.main(["--length", "1", "--vocab", "3", "--out", str(tmp_path)]) == 2
    assert "lets no token see another" in capsys.readouterr().out


def test_a_goal_is_missed_by_one_seed_one_token_or_one_unsettled_sequence(
    monkeypatch: pytest.MonkeyPatch, outcomes: dict[str, Outcome]
) -> None:
    run = outcomes[EQPROP]
    perfect = replace(run.settled, wrong=0, unsettled=0, tokens=GOAL_TOKENS)
    monkeypatch.setitem(GOALS, run.kind, 1.0)
    for changed, reached in (
        (perfect, True),
        (replace(perfect, wrong=1), False),
        (replace(perfect, unsettled=1), False),
    ):
        runs = [replace(run, settled=perfect), replace(run, seed=43, settled=changed)]
        (kind,) = arrange(runs)
        assert kind.reached is reached
    small = replace(run, settled=replace(perfect, tokens=GOAL_TOKENS - 1))
    assert arrange([small])[0].reached is None
    monkeypatch.delitem(GOALS, run.kind)
    assert arrange([run])[0].reached is None


def test_settings_of_the_goals_are_large_enough() -> None:
    for _, vocabulary, length in GOALS:
        settings = settings_for(vocabulary, length, quick=False)
        assert settings.test_sequences * length >= GOAL_TOKENS
