"""The command on a tiny network: what it writes, how it resumes, and how it refuses."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.compiled.backend import NumbaBackend
from engine.couplings.attention import Attention
from engine.equilibrium import Equilibrium
from engine.learning.run import Run
from engine.learning.training import Training
from engine.model.params import Params, initial_params
from experiments.transformer import command, measures, report, training
from experiments.transformer.__main__ import _parser, main
from experiments.transformer.measures import examine, held_out
from experiments.transformer.outcomes import TransformerOutcome, load_outcome, run_job, save_outcome
from experiments.transformer.parts import readout_of
from experiments.transformer.sequences import TASKS, TEST, TRAINING, parts_of
from experiments.transformer.settings import GOAL_TOKENS, GOALS, TransformerSettings, settings_for
from experiments.transformer.summary import arrange
from experiments.transformer.training import BACKPROP, EQPROP, TransformerJob, learning_rate, train

TINY = TransformerSettings(
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


def test_the_rate_rises_over_the_warm_up_and_falls_as_a_cosine() -> None:
    plain = TransformerSettings(vocabulary=50, length=8, updates=100, lr=0.5, last_rate=0.1)
    warm = replace(plain, warm_up=10)
    assert learning_rate(plain, 0) == 0.5
    assert learning_rate(plain, 100) == pytest.approx(0.05)
    for update in range(100):
        share = min(1.0, (update + 1) / 10)
        assert learning_rate(warm, update) == pytest.approx(share * learning_rate(plain, update))
    assert max(range(100), key=lambda update: learning_rate(warm, update)) == 9


@pytest.fixture(scope="module")
def outcomes() -> dict[str, TransformerOutcome]:
    return {
        method: run_job(TransformerJob("reversal", method, 42, TINY))
        for method in (EQPROP, BACKPROP)
    }


@pytest.fixture
def backend() -> NumbaBackend:
    return NumbaBackend(TINY.network, initial_params(TINY.network, np.random.default_rng(0)))


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch, outcomes: dict[str, TransformerOutcome]) -> list[str]:
    """Give the command runs that are done already; return the keys of those it asks for."""
    asked: list[str] = []

    def settings(task: str, vocabulary: int, length: int, quick: bool) -> TransformerSettings:
        return replace(TINY, vocabulary=vocabulary, length=length)

    def known(job: TransformerJob, watch: Callable[[int], None]) -> TransformerOutcome:
        asked.append(job.key)
        watch(20)
        return outcomes[job.method]

    monkeypatch.setattr(command, "settings_for", settings)
    monkeypatch.setattr(command, "run_job", known)
    return asked


def _call(folder: Path, *options: str) -> int:
    tiny = ["--vocab", "3", "--length", "5", "--seeds", "1", "--workers", "1"]
    return main([*tiny, *options, "--out", str(folder)])


def _jobs(*options: str) -> list[TransformerJob]:
    return command._jobs(_parser().parse_args(options))


def test_an_outcome_is_read_back_as_it_was(
    tmp_path: Path, outcomes: dict[str, TransformerOutcome]
) -> None:
    save_outcome(tmp_path, "one", outcomes[EQPROP])
    assert load_outcome(tmp_path / "one.json") == outcomes[EQPROP]
    (tmp_path / "one.json").write_text("{}", encoding="utf-8")
    assert load_outcome(tmp_path / "one.json") is None
    assert load_outcome(tmp_path / "two.json") is None


def test_both_methods_start_alike_and_see_the_same_sequences(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: dict[str, list[np.ndarray]] = {"train_step": [], "backprop_step": []}
    for step, given in seen.items():

        def note(backend, x, y, *_, given=given):  # type: ignore[no-untyped-def]
            given += [backend.params.theta.copy(), x, y]

        monkeypatch.setattr(training, step, note)
    monkeypatch.setattr(training, "measure_moment", lambda *_: None)
    for method in (EQPROP, BACKPROP):
        train(TransformerJob("reversal", method, 42, TINY))
    assert len(seen["train_step"]) == 3 * TINY.updates
    for one, other in zip(*seen.values(), strict=True):
        np.testing.assert_array_equal(one, other)
    for x in seen["train_step"][1::3]:
        assert (parts_of(x.astype(np.int64)) == TRAINING).all()
    assert (parts_of(held_out(TINY, 42)) == TEST).all()


def test_at_the_start_the_estimated_gradient_is_that_of_autograd(
    outcomes: dict[str, TransformerOutcome],
) -> None:
    first = outcomes[EQPROP].curve[0]
    assert first.update == 0
    assert first.cosine > 0.999
    assert first == outcomes[BACKPROP].curve[0]


@pytest.mark.parametrize("method", [EQPROP, BACKPROP])
def test_training_by_either_method_lowers_the_cost(method: str) -> None:
    longer = replace(TINY, updates=40, batch=16, lr=0.02, unrolled_steps=8)
    first, last = train(TransformerJob("copy", method, 42, longer)).curve
    assert last.cost < 0.7 * first.cost
    assert last.accuracy > first.accuracy


def test_a_long_gradient_of_backprop_is_cut_and_a_short_one_is_not(
    backend: NumbaBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths = []
    monkeypatch.setattr(
        training, "descend", lambda _, __, run, total: lengths.append(np.linalg.norm(run.gradient))
    )
    x = held_out(TINY, 42)
    y = readout_of(TINY.network).targets(x)
    run = Run.start(TINY.network, 2, np.float32, 0)
    for longest in (1e9, 1e-3):
        settings = replace(TINY, longest=longest, unrolled_steps=3)
        training.backprop_step(backend, x.astype(np.float32), y, Training(), run, settings)
    assert 1e-3 < lengths[0] < 1e3
    assert lengths[1] == pytest.approx(1e-3, rel=1e-5)


def test_wrong_answers_are_counted_token_by_token(backend: NumbaBackend) -> None:
    x = held_out(TINY, 42)
    readout = backend.network.readout
    settled = backend.settle(backend.clamp(x), relaxation=TINY.settled)
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
    backend: NumbaBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, seen = backend.clamp, []

    def clamp(x, y=None):  # type: ignore[no-untyped-def]
        seen.append(x)
        return real(x, y)

    monkeypatch.setattr(backend, "clamp", clamp)
    measures.measure_moment(backend, TINY, TASKS["reversal"], 42, 0)
    assert {str(p) for x in seen for p in parts_of(x.astype(np.int64))} == {"validation"}


def test_nudged_states_on_one_side_are_lopsided(backend: NumbaBackend) -> None:
    """In order: opposite, slightly bent, and one that went elsewhere."""
    free = np.zeros((3, 2))
    plus, minus = np.array([[1, 0], [1, 0.2], [9, 9]]), np.array([[-1, 0], [-1, 0.2], [-1, 0]])

    class Canned(NumbaBackend):
        def _relax(self, *_):  # type: ignore[no-untyped-def]
            fine = np.ones(3, bool)
            return tuple(Equilibrium(s, fine, 0.0 * s, fine, 0.1) for s in (free, plus, minus))

    canned = Canned(TINY.network, backend.params)
    clamped = canned.clamp(np.zeros((3, TINY.length)), np.zeros((3, TINY.network.outputs)) + 1 / 3)
    assert measures.lopsided_share(canned, clamped, 0.2, 0.5) == pytest.approx(1 / 3)


def test_restarts_find_a_second_equilibrium_where_there_is_one(backend: NumbaBackend) -> None:
    """Around zero a step multiplies what all tokens share by `4 strength^2`: 0.36, then 1.96."""
    attention = next(c for c in backend.network.couplings if isinstance(c, Attention))
    x = np.zeros((3, TINY.length), np.int64)
    several = []
    for strength in (0.3, 0.7):
        params = Params(TINY.network, np.zeros(TINY.network.size, np.float32))
        heads = attention.split(params[attention.name], params.network.shapes[attention.layer][0])
        heads.query[:] = heads.key[:] = strength * np.eye(*heads.query.shape[1:])
        backend.load(params)
        found = measures.measure_multistability(backend, x, x, replace(TINY, restarts=4), 42)
        several.append(found.several)
        assert found.unsettled == 0
    assert several == [0, 3]


def test_by_default_everything_is_run_and_the_longest_first() -> None:
    jobs = _jobs()
    keys = [job.key.rsplit("-", 1)[0] for job in jobs]
    compared = [f"reversal-{v}x8-{m}" for v in (10, 50) for m in (EQPROP, BACKPROP)]
    once = [
        f"{kind}-{EQPROP}" for kind in ("reversal-10x16", "copy-10x8", "shift-10x8", "sort-10x8")
    ]
    assert Counter(keys) == Counter(3 * compared + once)
    assert keys[0] == f"reversal-10x16-{EQPROP}"
    assert {job.seed for job in jobs} == {42, 43, 44}


def test_what_is_asked_for_is_run_in_all_combinations() -> None:
    jobs = _jobs("--task", "all", "--length", "4", "6", "--seeds", "2", "--no-control")
    kinds = {(job.task, job.settings.vocabulary, job.settings.length) for job in jobs}
    assert kinds == {(task, 10, length) for task in TASKS for length in (4, 6)}
    assert len(jobs) == 2 * len(kinds)
    assert len(_jobs("--quick")) == 2


def test_the_command_writes_its_report_and_resumes(
    tmp_path: Path, tiny: list[str], capsys: pytest.CaptureFixture[str]
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
    assert len(tiny) == 2
    assert _call(tmp_path) == 0
    assert "2 of 2 runs were done before" in capsys.readouterr().out
    assert len(tiny) == 2


def test_an_interruption_keeps_what_is_finished(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tiny: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    real = command.run_job

    def stop_at_backprop(job: TransformerJob, watch: Callable[[int], None]) -> TransformerOutcome:
        if job.method == BACKPROP:
            raise KeyboardInterrupt
        return real(job, watch)

    monkeypatch.setattr(command, "run_job", stop_at_backprop)
    assert _call(tmp_path) == 130
    assert "Finished runs are kept" in capsys.readouterr().out
    left = [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()]
    assert left == ["runs/reversal-3x5-eqprop-42.json"]


@pytest.mark.usefixtures("tiny")
def test_what_cannot_be_done_is_said_in_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--length", "1", "--vocab", "3", "--out", str(tmp_path)]) == 2
    assert "lets no token see another" in capsys.readouterr().out


@pytest.fixture
def perfect(
    outcomes: dict[str, TransformerOutcome], monkeypatch: pytest.MonkeyPatch
) -> TransformerOutcome:
    """A run that reaches the goal set for it."""
    run = outcomes[EQPROP]
    monkeypatch.setitem(GOALS, run.kind, 1.0)
    return replace(run, settled=replace(run.settled, wrong=0, unsettled=0, tokens=GOAL_TOKENS))


def test_a_goal_is_missed_by_one_seed_one_token_or_one_unsettled_sequence(
    perfect: TransformerOutcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = perfect.settled
    for changed, reached in (
        (good, True),
        (replace(good, wrong=1), False),
        (replace(good, unsettled=1), False),
    ):
        (kind,) = arrange([perfect, replace(perfect, seed=43, settled=changed)])
        assert kind.reached is reached
    small = replace(perfect, settled=replace(good, tokens=GOAL_TOKENS - 1))
    assert arrange([small])[0].reached is None
    monkeypatch.delitem(GOALS, perfect.kind)
    assert arrange([perfect])[0].reached is None


@pytest.mark.parametrize(
    ("cosine", "code", "word"), [(0.99, 0, "reached"), (0.98, 1, "missed"), (np.nan, 1, "missed")]
)
def test_a_gradient_that_strays_misses_its_goal(
    cosine: float,
    code: int,
    word: str,
    perfect: TransformerOutcome,
    tmp_path: Path,
    tiny: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    strayed = replace(perfect.curve[0], cosine=cosine)
    run = replace(perfect, curve=(strayed, replace(strayed, cosine=1.0)))
    monkeypatch.setattr(command, "run_job", lambda *_: run)
    monkeypatch.setattr(report, "draw_plots", lambda _: [])
    assert _call(tmp_path, "--no-control") == code
    said = " ".join(capsys.readouterr().out.split())
    assert "0 wrong of 80,000 held-out tokens at equilibrium (goal 100 %: reached)" in said
    assert f"(goal 0.99: {word})" in said
    results = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert results["goals"] == {
        "Reversal, 3 tokens, length 5": {"tokens": True, "cosine": code == 0}
    }


def test_settings_of_the_goals_are_large_enough() -> None:
    for task, vocabulary, length in GOALS:
        settings = settings_for(task, vocabulary, length, quick=False)
        assert settings.test_sequences * length >= GOAL_TOKENS
