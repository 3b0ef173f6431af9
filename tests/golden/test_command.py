"""`python -m golden`: one verdict, and an exit code that a build can trust."""

import subprocess
import sys

import pytest

from engine.arrays import FloatArray
from engine.backend import Backend
from engine.compiled.backend import NumbaBackend
from engine.equilibrium import Clamped, Equilibrium, Relaxation
from engine.errors import EngineError
from engine.model.builders import layered, looped_mlp
from golden import command
from golden.__main__ import main


class WrongUnit(NumbaBackend):
    """The first unit is off by 1e-3 in every sample."""

    _relax = Backend._relax  # one phase after the other

    def _relax_one(
        self, clamped: Clamped, beta: float, relaxation: Relaxation, start: FloatArray | None
    ) -> Equilibrium:
        reached = super()._relax_one(clamped, beta, relaxation, start)
        reached.state[:, 0] += 1e-3
        return reached


class WrongRule(NumbaBackend):
    """The local rule has the wrong sign."""

    def _accumulate(
        self,
        clamped: Clamped,
        equilibrium: Equilibrium,
        gradient: FloatArray,
        energy: float,
        cost: float,
    ) -> None:
        super()._accumulate(clamped, equilibrium, gradient, -energy, cost)


class Refusing(NumbaBackend):
    """Cannot relax at all."""

    _relax = Backend._relax  # one phase after the other

    def _relax_one(
        self, clamped: Clamped, beta: float, relaxation: Relaxation, start: FloatArray | None
    ) -> Equilibrium:
        raise EngineError("the substrate is on fire.")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Judge two small networks only."""
    networks = {"looped": looped_mlp(3, 4, 2), "layered, depth 3": layered((3, 4, 4, 4, 2))}
    monkeypatch.setattr(command, "judged_networks", lambda: networks)
    monkeypatch.setattr(command, "smooth_networks", lambda: {"looped": networks["looped"]})


def test_engine_passes_and_every_proof_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--steps", "5"]) == 0
    printed = capsys.readouterr().out
    assert printed.rstrip().splitlines()[-1].startswith("Verdict: all ")
    assert "Failure" not in printed
    for state in ("capped (norm 0.95)", "uncapped (norm 1.5)"):
        for moment in ("initial", "trained"):
            title = f"## numba against torch, float32: looped, {state}, {moment}"
            assert title in printed
    for reference in ("BPTT", "implicit", "finite differences"):
        for name in ("looped", *(f"layered, depth {depth}" for depth in range(1, 5))):
            assert printed.count(f"| {name}, initial | {reference} |") == 1
            assert printed.count(f"| {name}, trained | {reference} |") == 1
    assert printed.count("| Step | Max difference |\n| --- | --- |\n| 1 |") == 8


@pytest.mark.usefixtures("small")
def test_small_run_passes_with_another_seed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--steps", "4", "--seed", "11"]) == 0
    printed = capsys.readouterr().out
    steps = printed.split("## Gradient")[0]
    assert "| 4 | " in steps
    assert "| 5 | " not in steps


@pytest.mark.usefixtures("small")
def test_wrong_unit_is_found_and_located(capsys: pytest.CaptureFixture[str]) -> None:
    backends = {"numba": command.BACKENDS["numba"], "wrong": WrongUnit}
    assert main(["--steps", "2"], backends) == 1
    printed = capsys.readouterr().out
    assert "Failure: numba against wrong, float32: looped, capped (norm 0.95), initial" in printed
    assert "step 1, layer 'hidden', unit 0" in printed
    assert " failures in " in printed.rstrip().splitlines()[-1]


@pytest.mark.usefixtures("small")
def test_wrong_rule_fails_by_reference_and_by_gradient(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--steps", "2"], {"wrong": WrongRule}) == 1
    printed = capsys.readouterr().out
    assert "initial, wrong, W_rec local rule: " in printed
    assert "Failure: gradient of looped, initial against BPTT" in printed
    assert "Failure: bias of centered, looped, trained: order" in printed
    assert "Failure: numba" not in printed


@pytest.mark.usefixtures("small")
def test_backend_that_refuses_is_a_failure_in_one_sentence(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([], {"numba": NumbaBackend, "wrong": Refusing}) == 1
    assert "Failure: stopped early: the substrate is on fire." in capsys.readouterr().out


@pytest.mark.usefixtures("small")
def test_same_seed_prints_the_same_report(capsys: pytest.CaptureFixture[str]) -> None:
    reports = []
    for seed in ("1", "1", "2"):
        main(["--steps", "2", "--seed", seed], {"numba": NumbaBackend})
        reports.append(capsys.readouterr().out)
    assert reports[0] == reports[1]
    assert reports[0] != reports[2]


@pytest.mark.parametrize(
    ("option", "value", "least"),
    [("--steps", "0", 1), ("--steps", "many", 1), ("--steps", "2.5", 1), ("--seed", "-1", 0)],
)
def test_senseless_number_is_refused(
    option: str, value: str, least: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([option, value])
    assert stopped.value.code == 2
    sentence = f"argument {option}: '{value}' is not a whole number of at least {least}"
    assert sentence in capsys.readouterr().err


def test_help_names_the_options() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "golden", "--help"], capture_output=True, text=True, check=True
    )
    assert "--steps" in run.stdout
    assert "--seed" in run.stdout
