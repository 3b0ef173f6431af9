"""What a command says before its work: at once, without what the work needs, and in good words."""

import ast
import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from experiments.fuzz.listing import sentences
from experiments.hardware.choices import BUILT, SUBSTRATES, TECHNOLOGIES
from experiments.hardware.settings import NETWORKS
from experiments.verify.listing import track_titles
from settle.commands import commands
from settle.packages import ROOT

HEAVY = ("torch", "sklearn", "numba", "matplotlib", "scipy", "hypothesis")
CALL = """
import sys
from importlib import import_module
try:
    import_module(sys.argv[1]).main(sys.argv[2:])
except SystemExit as ended:
    code = ended.code
print([name for name in {heavy} if name in sys.modules], code)
"""
TYPOS = {
    "parity": [
        *(["--tasks", "digit"], ["--data", "nothing.npz"], ["--set", "hiden"]),
        *(["--set", "epochs=3", "hiden=3"], ["--out", "pyproject.toml"]),
    ],
    "vision": [
        *(["--tasks", "mnits"], ["--data", "nothing.npz"], ["--network", "x"]),
        ["--set", "data=x"],
    ],
    "hardware": [
        *(["--task", "digit"], ["--data", "nothing.csv"], ["--network", "loped"]),
        *(["--network", "nothing.npz"], ["--substrate", "spikes"], ["--technology", "digital_45"]),
        *(["--technology", "nothing.toml"], ["--compare", "nothing.json", "nothing.json"]),
    ],
    "verify": [["--track", "99"]],
    "fuzz": [["--property", "luck"]],
    "transformer": [["--task", "reversed"]],
    "circuit": [["trian"]],
    "bench": [["--part", "epochs"], ["--against", "nothing"]],
    "addition": [["evaluate", "nothing.pt"], ["predict", "1", "2", "--checkpoint", "nothing.pt"]],
}


def loaded(command: str, *given: str) -> tuple[list[str], int, str]:
    """Return which heavy packages a call imports, its exit code, and what it said."""
    script = CALL.format(heavy=HEAVY)
    words = [sys.executable, "-c", script, f"{commands()[command]}.__main__", *given]
    place = {**os.environ, "COLUMNS": "80"}
    done = subprocess.run(
        words, cwd=ROOT, env=place, capture_output=True, text=True, timeout=120, check=True
    )
    *_, last = done.stdout.splitlines()
    found, _, code = last.rpartition(" ")
    return ast.literal_eval(found), int(code), done.stdout + done.stderr


@pytest.mark.parametrize("command", sorted(commands()))
def test_the_help_of_a_command_imports_nothing_heavy(command: str) -> None:
    found, code, said = loaded(command, "--help")
    assert (found, code) == ([], 0)
    assert "usage: " in said
    examples = "  python -m"  # to be copied whole
    text = [line for line in said.splitlines() if not line.startswith(examples)]
    assert max(map(len, text)) <= 80


@pytest.mark.parametrize(
    ("command", "given"), [(name, given) for name, all_ in TYPOS.items() for given in all_]
)
def test_a_typo_and_a_missing_file_are_refused_before_anything_heavy(
    command: str, given: list[str]
) -> None:
    found, code, said = loaded(command, *given)
    assert (found, code) == ([], 2)
    (sentence,) = [line for line in said.splitlines() if ": error: " in line]
    assert given[-1].partition("=")[0] in sentence


def test_a_typo_gets_the_nearest_name() -> None:
    assert "did you mean digits?" in loaded("parity", "--tasks", "digit")[2]


def test_the_settings_that_a_parser_knows_are_those_that_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from experiments.contest.choices import FIXED
    from experiments.parity.__main__ import main
    from experiments.parity.settings import ParitySettings

    with pytest.raises(SystemExit):
        main(["--set", "hiden=3"])
    said = capsys.readouterr().err.splitlines()[-1]
    names = [field.name for field in fields(ParitySettings) if field.name not in FIXED]
    assert f"no setting 'hiden'; known: {', '.join(names)}; did you mean hidden?" in said


def test_what_the_parsers_list_is_what_there_is() -> None:
    from experiments.fuzz.catalogue import THEORIES
    from experiments.verify.registry import all_tracks
    from hw_sim.chips.catalogue import CHIPS
    from hw_sim.prices.technology import shipped_technologies

    assert sentences() == {name: theory.sentence for name, theory in THEORIES.items()}
    assert track_titles() == {number: track.title for number, track in all_tracks().items()}
    assert {name: chip.technologies for name, chip in CHIPS.items()} == SUBSTRATES
    assert sorted(TECHNOLOGIES) == sorted(shipped_technologies())
    assert tuple(NETWORKS) == BUILT


def test_every_command_is_found_with_its_one_line() -> None:
    found = commands()
    assert {"parity", "vision", "hardware", "verify", "fuzz", "bench", "golden"} <= set(found)
    folders = {path.parent.name for path in Path(ROOT, "experiments").glob("*/__main__.py")}
    assert len(found) == len(folders) + 1
