import json

import pytest
from scipy import stats

from experiments.addition.reliability import draw_curves, reliability, write_group
from experiments.addition.seed_run import MetricRow


@pytest.mark.parametrize(("grokked", "seeds"), [(0, 5), (3, 8), (12, 24), (8, 8)])
def test_the_interval_is_the_exact_one(grokked, seeds):
    """Clopper and Pearson: each bound is where the data would be a 2.5 % surprise."""
    result = reliability(grokked, seeds)
    assert result.low <= result.fraction <= result.high
    if grokked > 0:
        assert stats.binom.sf(grokked - 1, seeds, result.low) == pytest.approx(0.025)
    else:
        assert result.low == 0.0
    if grokked < seeds:
        assert stats.binom.cdf(grokked, seeds, result.high) == pytest.approx(0.025)
    else:
        assert result.high == 1.0


def curve(*exact):
    return [MetricRow(500 * k, 1.0, value, value, 0.01, 1.0) for k, value in enumerate(exact)]


def summary(seed, test_exact):
    return {
        "seed": seed, "grokked": test_exact >= 0.99, "best_val_exact": test_exact, "best_step": 500,
        "test_exact": test_exact, "steps": 1000, "elapsed_sec": 3.0, "params": 456,
    }  # fmt: skip


def test_a_group_writes_its_files(tmp_path):
    summaries = [summary(1, 0.9999), summary(2, 0.0), summary(3, 0.992)]
    curves = {1: curve(0, 1), 2: curve(0, 0), 3: curve(0.5, 0.99)}
    result = write_group(tmp_path, "python -m it", summaries, curves)
    assert result.sentence().startswith("2 of 3 seeds grokked (66.67 %")
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"summary.json", "report.md", "grokking.png", "grokking.svg"}
    content = json.loads((tmp_path / "summary.json").read_text())
    assert (content["grokked"], content["nearly_all"], content["seeds"]) == (2, 1, 3)
    report = (tmp_path / "report.md").read_text()
    assert "python -m it" in report
    assert "2 of 3 seeds grokked" in report


def test_every_seed_has_its_line_in_both_panels():
    figure = draw_curves({1: curve(0, 1), 2: curve(0, 0.2)})
    for axes in figure.axes:
        assert [line.get_ydata()[-1] for line in axes.lines] == [100, 20]
        assert axes.lines[0].get_color() != axes.lines[1].get_color()
