"""Options of the hardware command that would do nothing are refused, in one sentence, at once."""

import subprocess
import sys

import pytest

from experiments.hardware.__main__ import main
from experiments.hardware.choices import CELLS
from hw_sim.prices.cell_presets import PRESETS


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["--substrate", "crossbar", "--bits", "8"], "--bits is of the digital chip"),
        (["--substrate", "digital", "--tiles", "8x8"], "--tiles is of the crossbar chip"),
        (["--substrate", "digital", "--cells", "pcm"], "--cells is of the crossbar chip"),
        (["--substrate", "digital", "--neurons-per-core", "8"], "is of the spiking chip"),
        (["--substrate", "digital", "--set", "crossbar.stuck=0.1"], "crossbar.stuck is of the"),
        (["--substrate", "spiking", "--sweep", "digital.weight_bits=4,8"], "is of the digital"),
        (["--network", "transformer", "--tiles", "8x8"], "--tiles is of the crossbar chip"),
        (["--network", "transformer", "--task", "mnist"], "--task does nothing with --network"),
        (["--set", "layers=3"], "setting layers is of the networks deep, not of looped"),
        (["--network", "conv", "--set", "hidden=8"], "not of conv"),
        (["--network", "8-4-2", "--sweep", "hidden=8,9"], "not of 8-4-2"),
        (["--published", "--bits", "8"], "--bits does nothing with --published"),
        (["--explain", "mac", "--seeds", "2"], "--seeds does nothing with --explain"),
        (["--tune", "--no-sweeps"], "--no-sweeps does nothing with --tune"),
        (["--sweep", "weight_bits=4", "--target", "90"], "--target does nothing with --sweep"),
        (["--sweep", "weight_bits=4", "--tune"], "--tune and --sweep are done one at a time"),
        (["--sweep", "weight_bits=4", "weight_bits=8"], "--sweep has weight_bits twice"),
        (["--sweep", "weight_bits"], "'weight_bits' is not a setting and its values"),
        (["--sweep", "weight_bits=4,,8"], "is not a setting and its values"),
        (["--cells", "magic"], "there is no cell 'magic'; known: rram_isaac"),
        (["--substrate", "digital", "--technology", "loihi_like"], "loihi_like is of the spiking"),
        (["--technology", "gpu", "--tiles", "8x8"], "--tiles is of the crossbar chip, and only"),
        (["--target", "200"], "'200' is not a number above 0 and up to 100"),
    ],
)
def test_what_does_nothing_is_refused(
    given: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(given)
    assert stopped.value.code == 2
    assert sentence in capsys.readouterr().err.splitlines()[-1]


def test_it_is_refused_before_chips_and_kernels_are_imported() -> None:
    """They take seconds, for which a typo should not have to wait."""
    code = (
        "import sys\nfrom experiments.hardware.__main__ import main\n"
        "try:\n    main(['--substrate', 'crossbar', '--bits', '8'])\n"
        "except SystemExit:\n    print(sorted({'numba', 'hw_sim'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"


def test_the_options_name_all_presets() -> None:
    assert tuple(PRESETS) == CELLS
