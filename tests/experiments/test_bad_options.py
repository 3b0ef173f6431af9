"""Every command with every kind of wrong option: one sentence, exit code 2, nothing written.

And every command that is told to end: one line, and the exit code of the signal.
"""

import os
import signal
from itertools import product
from pathlib import Path

import pytest

import experiments.fuzz.__main__ as fuzz
import golden.__main__ as golden
from experiments.addition.checkpoint import save_checkpoint
from experiments.options import EXIT_CODES
from tests.experiments.addition.addition_cases import random_checkpoint
from tests.experiments.command_cases import COMMANDS, Command
from tests.experiments.parity.parity_cases import write_csv
from tests.experiments.vision.vision_cases import write_images

HUGE = "9" * 50
COUNTS = ("0", "-1", "2.5", "nan", "x", "", HUGE, "9" * 5000, "\N{ARABIC-INDIC DIGIT FOUR}")
SEEDS = ("-1", "2.5", "nan", "x", "", HUGE)
TEXTS = ("a\0b", "a\nb", "\x1b[31m", "\udcff")
"""A control character, or a byte that is no text, in whatever option."""
FOLDERS = ("", " ", "x" * 300, "points.csv", "points.csv/out", "/proc/no/where")
NAMES = ("", " ", ".", "..", "...", "../x", "a/b", "/a", "a\\b", "x" * 300, "\xe9" * 200)
SETTINGS = (
    *("", "=", "epochs", "epochs=0", "hidden=0", "bptt_steps=-1", "lr=nan", "lr=-1"),
    *("beta=1e30", "tolerance=inf", f"hidden={HUGE}", f"spiking.neurons_per_core={HUGE}"),
)
ADDERS = ("addition train", "addition cell", "addition energy")
FIELDS = (
    *("", "=", "epochs", "epochs=0", "epochs=two", "nothing=1", "lr=nan", "lr=-1", "device=cpu"),
    *("estimator=best", "beta=none", "activation=sine", "layers=x", f"batch_size={HUGE}"),
)
UNDIVIDED = {"benchmark", "playground", "addition cell", "addition evaluate"}
OPTIONS = {
    "--workers": (COUNTS, set(COMMANDS) - UNDIVIDED),
    "--seeds": (COUNTS, {"parity", "vision", "hardware", "transformer", *ADDERS}),
    "--seed": (SEEDS, {"fuzz", "playground", *ADDERS}),
    "--epochs": (COUNTS, {"parity", "vision", "playground"}),
    "--hidden": ((*COUNTS, "1025"), {"playground"}),
    "--tasks": (("", "chess"), {"parity", "vision"}),
    "--network": (("", "resnet"), {"vision", "playground"}),
    "--data": (("", ".", "absent.csv", "x" * 300 + ".csv"), {"parity", "vision", "hardware"}),
    "--task": (("", "chess"), {"hardware", "transformer", "playground"}),
    "--substrate": (("", "quantum"), {"hardware"}),
    "--bits": (("0", "-1", "x", "", "nan", HUGE), {"hardware"}),
    "--set": (SETTINGS, {"hardware"}),
    "--set ": (FIELDS, {"parity", "vision", "parity --tune", "vision --tune"}),
    "--settings": (("", ".", "absent.json", "points.csv"), {"parity", "vision"}),
    "--vocab": (COUNTS, {"transformer"}),
    "--length": (COUNTS, {"transformer"}),
    "--track": (COUNTS, {"verify"}),
    "--threads": (COUNTS, {"benchmark"}),
    "--part": (("", "x"), {"benchmark"}),
    "--against": (("", ".", "absent", "x" * 300), {"benchmark"}),
    "--minutes": (("nan", "inf", "0", "-1", "x", ""), {"fuzz"}),
    "--property": (("", "x"), {"fuzz"}),
    "--updates": (COUNTS, {"addition cell", "addition energy"}),
    "--sums": (COUNTS, {"addition cell"}),
    "--digits": (("0", "-1", "x", "", "19", HUGE), {"addition energy"}),
    "--train-steps": (COUNTS, {"addition train", "addition log"}),
    "--batch-size": (COUNTS, {"addition train"}),
    "--d-model": (("0", "-1", "x", "", HUGE), {"addition train"}),
    "--lr": (("0", "-1", "nan", "inf", "x", ""), {"addition train"}),
    "--curriculum": (("", "1", "0:1", "11:5", "1:x", ":"), {"addition train"}),
    "--device": (
        ("", "x"),
        {"parity", "vision", "addition train", "addition log", "addition evaluate"},
    ),
    "--run-name": (NAMES, {"addition train"}),
}
WRONG = [
    *((name, f"{option.strip()}={value}")
      for option, (values, names) in OPTIONS.items()
      for name, value in product(sorted(names), values)),
    *((name, f"{command.out}={value}")
      for name, command in COMMANDS.items()
      for value in (*FOLDERS, *TEXTS)
      if (command.out, value) != ("--output", "points.csv")),
    *(("addition train", f"--run-name={value}") for value in TEXTS),
]  # fmt: skip


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with what the commands read; they run in it."""
    write_csv(tmp_path / "points.csv")
    write_images(tmp_path / "images.npz")
    save_checkpoint(tmp_path / "model.pt", random_checkpoint(), {})
    monkeypatch.chdir(tmp_path)
    return tmp_path


def never(*_, **__):
    raise AssertionError("the work began")


def call(command: Command, *more: str) -> int:
    try:
        return command.main([*command.given, *more])
    except SystemExit as refused:  # by argparse
        return refused.code


@pytest.mark.parametrize(("name", "wrong"), WRONG, ids=lambda text: ascii(text[:40]))
def test_a_wrong_option_is_one_sentence_before_the_work(name, wrong, place, monkeypatch, capsys):
    monkeypatch.setattr(*COMMANDS[name].work, never)
    before = sorted(place.rglob("*"))
    assert call(COMMANDS[name], wrong) == 2
    printed, errors = capsys.readouterr()
    assert "Traceback" not in printed + errors
    if printed:
        assert printed.startswith("Error: ")
        assert printed.endswith(".\n")
        assert printed.count("\n") == 1
    else:  # argparse has its own way
        assert errors.startswith("usage: ")
        assert ": error: " in errors.splitlines()[-1]
    assert sorted(place.rglob("*")) == before


@pytest.mark.parametrize("name", COMMANDS)
def test_without_a_wrong_option_the_work_begins(name, place, monkeypatch):
    monkeypatch.setattr(*COMMANDS[name].work, never)
    with pytest.raises(AssertionError, match="the work began"):
        call(COMMANDS[name], COMMANDS[name].out, str(place / "new" / "out"))


@pytest.mark.parametrize("name", COMMANDS)
def test_sigterm_is_one_line_and_143(name, place, monkeypatch, capsys):
    before = sorted(place.rglob("*"))
    handler = signal.getsignal(signal.SIGTERM)

    def end(*_, **__):
        os.kill(os.getpid(), signal.SIGTERM)
        never()

    monkeypatch.setattr(*COMMANDS[name].work, end)
    assert call(COMMANDS[name]) == 143
    printed, errors = capsys.readouterr()
    assert printed.splitlines()[-1].startswith("Stopped")
    assert errors == ""
    assert sorted(place.rglob("*")) == before
    assert signal.getsignal(signal.SIGTERM) == handler


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - {"fuzz"}))
def test_the_help_has_the_exit_codes(name, capsys):
    main = COMMANDS[name].main
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    assert EXIT_CODES in capsys.readouterr().out


@pytest.mark.parametrize("wrong", [f"--seed={v}" for v in ("-1", "x", "", "1.5", "a\0b")])
def test_the_judge_refuses_a_wrong_seed_too(wrong, capsys):
    with pytest.raises(SystemExit) as refused:
        golden.main([wrong])
    assert refused.value.code == 2
    assert "Traceback" not in capsys.readouterr().err


def test_a_hunt_without_an_example_is_no_success(tmp_path, capsys):
    out = tmp_path / "out"
    assert fuzz.main(["--minutes", "1e-9", "--out", str(out)]) == 2
    assert capsys.readouterr().out.splitlines()[-1] == (
        "Error: nothing was tried in 1e-09 min; try more --minutes."
    )
    assert not out.exists()


@pytest.mark.parametrize("inside", ["runs", "live", "plots", "report.html", "results.json"])
def test_what_stands_in_the_way_of_a_file_is_found_before_the_work(
    inside, place, monkeypatch, capsys
):
    monkeypatch.setattr(*COMMANDS["parity"].work, never)
    out = place / "out"
    out.mkdir()
    (out / inside).mkdir() if "." in inside else (out / inside).write_text("a file")
    assert call(COMMANDS["parity"], "--out", str(out)) == 2
    assert f"{Path(out, inside)}" in capsys.readouterr().out


def test_a_data_file_whose_name_is_too_long_for_its_runs_is_found_before_the_work(
    place, monkeypatch, capsys
):
    monkeypatch.setattr(*COMMANDS["parity"].work, never)
    data = write_csv(place / f"{'x' * 230}.csv")
    assert COMMANDS["parity"].main(["--data", str(data), "--out", "out"]) == 2
    assert capsys.readouterr().out.endswith("cannot be written: File name too long.\n")
    assert not (place / "out").exists()
