"""The `settle` command: it finds, lists and runs commands, and says what is wrong in a sentence."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import golden.__main__ as golden
import settle.__main__ as command
from experiments.requirements import packages_needed
from settle import doctor
from settle.commands import commands, summary
from settle.packages import PACKAGES, ROOT, hidden_packages

BLOCKED = """
import sys

class Absent:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in {blocked}:
            raise ModuleNotFoundError("No module named " + repr(name), name=name)

sys.meta_path.insert(0, Absent)
from settle.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


def without(blocked: tuple[str, ...], *given: str, folder: Path) -> tuple[int, str, str]:
    """Run a command where some packages are not installed."""
    words = [sys.executable, "-c", BLOCKED.format(blocked=blocked), *given]
    done = subprocess.run(
        words,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        env={"PYTHONPATH": str(ROOT)},
    )
    return done.returncode, done.stdout, done.stderr


def test_help_lists_every_command_in_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([]) == 0
    text = capsys.readouterr().out
    for name, module in commands().items():
        assert f"\n  {name} " in text
        assert " ".join(summary(module).split()) in " ".join(text.split())
    assert max(map(len, text.splitlines())) < 80


def test_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--version"]) == 0
    assert capsys.readouterr().out == "settle 0.1.0\n"


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        *(("partiy", "did you mean parity?"), ("docter", "did you mean doctor?")),
        *(("--verison", "did you mean --version?"), ("qqq", "lists them")),
    ],
)
def test_an_unknown_command_is_one_sentence(
    typed: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main([typed]) == 2
    printed = capsys.readouterr().out
    assert printed.startswith(f"Error: there is no command '{typed}'; ")
    assert said in printed
    assert printed.count("\n") == 1


@pytest.mark.parametrize("name", ["parity", "golden", "fuzz"])
def test_the_help_of_a_command_calls_it_as_it_was_called(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = list(sys.argv)
    with pytest.raises(SystemExit):
        command.main([name, "--help"])
    assert capsys.readouterr().out.startswith(f"usage: settle {name} ")
    assert sys.argv == before


def interrupt(*_: object) -> int:
    raise KeyboardInterrupt


def test_ctrl_c_is_one_line_while_a_command_is_imported_and_where_it_minds_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "main", interrupt)
    assert command.main(["doctor"]) == 130
    with pytest.raises(SystemExit) as ended, packages_needed():
        interrupt()
    assert ended.value.code == 130
    assert golden.main([], {"numba": interrupt}) == 130
    assert [line for line in capsys.readouterr().out.splitlines() if line == "Stopped."] == [
        "Stopped."
    ] * 3


def test_the_exit_code_is_that_of_the_command(tmp_path: Path) -> None:
    code, said, errors = without((), "transformer", "--length", "0", folder=tmp_path)
    assert (code, said) == (2, "")
    assert errors.splitlines()[-1].startswith("settle transformer: error: argument --length")


@pytest.mark.parametrize(
    "given",
    [
        ("parity", "--tasks", "digits", "--seeds", "1", "--epochs", "1"),
        ("vision",),
        ("verify",),
        ("transformer", "--quick"),
        ("addition", "cell"),
        ("bench", "--quick"),
        ("golden",),
    ],
    ids=lambda given: given[0],
)
def test_without_torch_a_command_says_so_in_one_sentence(
    given: tuple[str, ...], tmp_path: Path
) -> None:
    code, said, errors = without(("torch",), *given, folder=tmp_path)
    assert (code, errors) == (2, "")
    assert said.startswith("Error: ")
    assert 'torch: pip install "settle[torch]".\n' in said
    assert said.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_without_hypothesis_the_fuzzer_says_so_in_one_sentence(tmp_path: Path) -> None:
    code, said, errors = without(("hypothesis",), "fuzz", folder=tmp_path)
    assert (code, errors) == (2, "")
    assert said == 'Error: this needs hypothesis: pip install "settle[dev]".\n'


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_of_the_same_name_is_named(name: str, tmp_path: Path) -> None:
    other = tmp_path / "other" / name
    other.mkdir(parents=True)
    (other / "__init__.py").write_text("")
    script = (
        f"import sys; sys.path[:0] = [{str(other.parent)!r}, {str(ROOT)!r}]\n"
        "from settle.packages import hidden_packages; print(*hidden_packages(), sep='\\n')"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    (sentence,) = done.stdout.splitlines()
    assert sentence.startswith(f"another package called {name}, in {other}, hides that of Settle")


@pytest.mark.parametrize(
    ("words", "prefix"),
    [
        (["-m", "experiments.gradient", "pyproject.toml", "pyproject.toml"], "Error: "),
        (["-c", "import adapters.sklearn_estimator"], "ImportError: "),
    ],
)
def test_an_engine_that_hides_ours_is_one_sentence(
    words: list[str], prefix: str, tmp_path: Path
) -> None:
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "__init__.py").write_text("")
    (tmp_path / "pyproject.toml").touch()
    place = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, env=place
    )
    *_, last = (done.stdout + done.stderr).splitlines()
    assert last.startswith(prefix)
    assert "called engine" in last
    assert "hides that of Settle" in last
    assert prefix == "ImportError: " or "Traceback" not in done.stderr


def test_ours_are_not_hidden_and_a_hidden_one_ends_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert hidden_packages() == []
    monkeypatch.setattr(command, "hidden_packages", lambda: ["another package hides ours."])
    assert command.main(["parity"]) == 2
    assert capsys.readouterr().out == "Error: another package hides ours.\n"


def test_the_doctor_names_what_is_there_and_what_is_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "train-images-idx3-ubyte.gz").touch()
    monkeypatch.setenv("SETTLE_DATA", str(tmp_path))
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "cache"))
    monkeypatch.setattr(doctor, "TOOLS", {"no-such-tool": ("its-package", "nothing")})
    monkeypatch.setattr(doctor, "_version", lambda name: None if name == "gymnasium" else "1.2.3")
    assert doctor.main([]) == 0
    said = capsys.readouterr().out
    text = " ".join(said.split())
    assert 'gymnasium not here: pip install "settle[control]"' in text
    assert "numpy 1.2.3" in text
    assert "no-such-tool not here (package its-package): nothing" in text
    assert f"mnist {tmp_path / 'mnist'}" in text
    assert f"not in {tmp_path / 'cifar10'} and {tmp_path / 'cache'}" in text
    assert "torch devices" in text
    assert text.endswith("Nothing needed is missing.")


def test_the_doctor_finds_a_missing_dependency(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "_version", lambda name: None if name == "joblib" else "1.2.3")
    assert doctor.main([]) == 1
    said = capsys.readouterr().out
    assert "joblib          missing: pip install joblib" in said
    assert said.endswith("Error: joblib is missing, and every command needs it.\n")
