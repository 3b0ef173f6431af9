"""The fuzzer holds the true engine to be right, finds seeded defects, and writes what it finds."""

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings

from engine.errors import DivergenceError
from experiments.fuzz import command
from experiments.fuzz.__main__ import main
from experiments.fuzz.catalogue import THEORIES
from experiments.fuzz.display import Tally
from experiments.fuzz.hunt import Failure, Turn, take_turn
from experiments.fuzz.profiles import PROFILES
from experiments.fuzz.regression import replay, write_regression
from experiments.fuzz.strategies import ALL_FEATURES, Case, cases, wild_cases
from tests.experiments.fuzz_defects import HUNTED, SEEDED, Defect, Impatient, use

ROOT = Path(__file__).parents[2]
PATIENCE_S = 120.0


def hunt(names: list[str] | None = None) -> tuple[Turn, float]:
    """Rotate through the properties until one fails or the patience ends."""
    began, used = time.perf_counter(), time.process_time()
    turn = None
    for number in range(100):
        for name in names or THEORIES:
            turn = take_turn(name, number, examples=10)
            if turn.failure is not None or time.perf_counter() - began > 10 * PATIENCE_S:
                return turn, time.process_time() - used
    assert turn is not None
    return turn, time.process_time() - used


@pytest.mark.parametrize("defect", HUNTED.values(), ids=HUNTED)
def test_a_seeded_defect_is_found_in_under_two_minutes(
    defect: Defect, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of processor time, which a busy machine does not stretch; and its file fails as it should."""
    defect(monkeypatch)
    turn, seconds = hunt()
    assert turn.failure is not None
    assert seconds < PATIENCE_S
    path = write_regression(tmp_path, turn.failure)
    names: dict[str, Any] = {}
    exec(compile(path.read_text(encoding="utf-8"), path, "exec"), names)
    with pytest.raises(Exception):  # noqa: B017, PT011 - a property may raise anything
        names[f"test_{turn.name}"]()
    monkeypatch.undo()
    names[f"test_{turn.name}"]()  # and passes once the defect is gone


@pytest.mark.parametrize(("name", "defect"), SEEDED.values(), ids=SEEDED)
def test_the_property_of_a_layer_sees_its_defect(
    name: str, defect: Defect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one turn, without making the example smaller, which takes longest."""
    defect(monkeypatch)
    search = given(THEORIES[name].examples)(lambda example: THEORIES[name].check(example))
    limits = settings(PROFILES["fuzz"], derandomize=True, phases=[Phase.generate])
    with pytest.raises((AssertionError, DivergenceError)), np.errstate(all="ignore"):
        limits(search)()


def test_a_failure_is_shrunk_to_a_small_network(monkeypatch: pytest.MonkeyPatch) -> None:
    use(Impatient)(monkeypatch)
    failure = take_turn("converged_is_true", 0, examples=100).failure
    assert failure is not None
    case = Case.from_text(failure.example)
    assert len(case.x) == 2
    assert case.network.units <= 3


@pytest.mark.parametrize("name", THEORIES)
def test_every_property_holds_on_some_examples(name: str) -> None:
    turn = take_turn(name, number=7, examples=6)
    assert turn.failure is None, turn.failure
    assert turn.examples >= 6


def test_properties_are_sentences() -> None:
    for name, theory in THEORIES.items():
        assert theory.sentence.endswith("."), name
        assert theory.check.__doc__, name


@given(wild_cases() | cases(dtype=np.float32))
def test_a_case_survives_its_own_text(case: Case) -> None:
    again = Case.from_text(json.loads(json.dumps(case.as_text())))
    assert again.network == case.network
    assert again.params.theta.dtype == case.params.theta.dtype
    for name in ("x", "y", "start"):
        np.testing.assert_array_equal(getattr(again, name), getattr(case, name))
    np.testing.assert_array_equal(again.params.theta, case.params.theta)
    assert (again.beta, again.seed, again.norm) == (case.beta, case.seed, case.norm)
    assert case.features() <= ALL_FEATURES


def test_a_known_failure_is_tried_first_the_next_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    use(Impatient)(monkeypatch)
    first = take_turn("converged_is_true", 0, examples=60, database=tmp_path)
    assert first.failure is not None
    assert take_turn("converged_is_true", 99, examples=1).failure is None
    again = take_turn("converged_is_true", 99, examples=1, database=tmp_path)
    assert again.failure is not None
    assert again.failure.example == first.failure.example


def test_profiles_differ_as_they_say() -> None:
    assert PROFILES["ci"].derandomize
    assert not PROFILES["dev"].derandomize
    assert PROFILES["ci"].max_examples < PROFILES["dev"].max_examples


def test_a_regression_file_of_odd_text_still_compiles(tmp_path: Path) -> None:
    failure = Failure(
        "nonsense_is_refused", 'a """ \\ quote\nand more', {"build": "é", "values": []}
    )
    path = write_regression(tmp_path, failure)
    compile(path.read_text(encoding="utf-8"), path, "exec")
    assert write_regression(tmp_path, failure) == path


def test_replay_runs_the_property_on_the_example() -> None:
    replay("nonsense_is_refused", json.dumps({"build": "Adam", "values": [float("nan")]}))
    with pytest.raises(KeyError):
        replay("nonsense_is_refused", json.dumps({"build": "Rocket", "values": []}))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--minutes", "0"], "'0' is not a positive number of minutes"),
        (["--minutes", "nan"], "'nan' is not a positive number"),
        (["--property", "luck"], "there is no property 'luck'"),
        (["--workers", "0"], "not a whole number of at least 1"),
    ],
)
def test_wrong_options_are_named(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_the_command_runs_clean_and_reports(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["nonsense_is_refused"]
    arguments = ["--minutes", "0.01", "--workers", "1", "--seed", "3", "--out", str(tmp_path)]
    assert main([*arguments, "--property", *names]) == 0
    said = capsys.readouterr().out
    assert "1 properties for 0.01 min, seed 3." in said
    assert "1 of 1 properties" in said
    assert "Not tried" not in said
    assert not list(tmp_path.glob("*.py"))


def test_a_short_hunt_comes_round_to_all_properties_and_names_those_it_did_not_reach(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["nonsense_is_refused", "cap_holds", "files_keep_everything"]
    asked: list[tuple[str, int | None]] = []

    class AtOnce:
        """A pool that does what it is given before it says so."""

        def submit(self, _: object, name: str, number: int, examples: int | None, *__: object):  # type: ignore[no-untyped-def]
            asked.append((name, examples))
            done: Future[Turn] = Future()
            done.set_result(Turn(name, 1, frozenset(), 0.1))
            return done

        def shutdown(self, **_: object) -> None:
            """It has no processes."""

    monkeypatch.setattr(command, "ProcessPoolExecutor", lambda *_: AtOnce())
    monkeypatch.setattr(Tally, "elapsed", property(lambda self: 1.0 * len(asked)))
    arguments = ["--minutes", str(5 / 60), "--workers", "1", "--out", str(tmp_path), "--property"]
    assert main([*arguments, *names]) == 0
    assert asked == [
        *((name, command.FEW) for name in names),
        *((name, None) for name in names[:2]),
    ]
    assert "Not tried" not in capsys.readouterr().out
    asked.clear()
    arguments[1] = str(2 / 60)
    assert main([*arguments, *names]) == 0
    assert f"Not tried: {names[2]}." in capsys.readouterr().out


def test_a_failure_gives_exit_code_one_and_the_command_to_replay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    failure = Failure("cap_holds", "AssertionError: 2 > 0.9", {"build": "Adam", "values": []})
    turns = [Turn("cap_holds", 5, frozenset({"tanh"}), 0.1, failure)]
    monkeypatch.setattr(command, "_turns", lambda *_: iter(turns))
    assert main(["--property", "cap_holds", "--out", str(tmp_path)]) == 1
    (path,) = tmp_path.glob("test_cap_holds_*.py")
    said = capsys.readouterr().out.replace("\n", "")
    assert f"python -m pytest {path}" in said
    assert "1 failures" in said


def hear_interrupts() -> None:
    """A shell lets what it runs in the background ignore them, and so would the command."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_ctrl_c_ends_it_cleanly(tmp_path: Path) -> None:
    arguments = [sys.executable, "-m", "experiments.fuzz", "--workers", "1", "--out", str(tmp_path)]
    child = subprocess.Popen(
        [*arguments, "--property", "nonsense_is_refused"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
        start_new_session=True,
        preexec_fn=hear_interrupts,
    )
    assert child.stdout is not None
    assert "1 properties" in child.stdout.readline()
    while not (tmp_path / "examples").exists() and child.poll() is None:
        time.sleep(0.1)  # until the hunt has begun
    time.sleep(1.0)
    os.killpg(child.pid, signal.SIGINT)  # as a terminal does: to the workers as well
    said, _ = child.communicate(timeout=300)
    assert child.returncode == 130
    assert "Stopped: " in said
    assert "Traceback" not in said
