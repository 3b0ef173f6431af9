import json

import numpy as np
import pytest

from adapters.torch_arrays import present_devices
from experiments.addition import command, data, evaluate, log, training_command
from experiments.addition.__main__ import main
from experiments.addition.checkpoint import save_checkpoint
from experiments.addition.data import encode, holdout
from experiments.addition.evaluate import answerer, benchmark, score
from experiments.addition.seed_run import read_metrics
from tests.experiments.addition.addition_cases import random_checkpoint, random_pairs

RANKS = {"--pos-rank": "3", "--qkv-rank": "3", "--attn-out-rank": "2", "--ffn-rank": "3"}
PUBLISHED = [word for option in RANKS.items() for word in option]
PUBLISHED += ["--use-rmsnorm", "--tie-qkv", "shareA_tieKV"]
SMALL = ["--train-steps", "6", "--batch-size", "16", "--eval-interval", "3"]


@pytest.fixture(autouse=True)
def small_holdout(monkeypatch):
    monkeypatch.setattr(data, "VALIDATION_SIZE", 30)
    monkeypatch.setattr(data, "TEST_SIZE", 50)
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model.pt"
    save_checkpoint(path, random_checkpoint(), {})
    return path


def test_train_writes_a_run_and_says_what_came_out(tmp_path, capsys):
    given = ["train", "--run-name", "it", "--out", str(tmp_path), *PUBLISHED, *SMALL]
    assert main([*given, "--seed", "43"]) == 0
    summary = json.loads((tmp_path / "it" / "summary.json").read_text())
    assert (summary["seed"], summary["params"], summary["steps"]) == (43, 456, 6)
    assert [row.step for row in read_metrics(tmp_path / "it" / "metrics.csv")] == [0, 3, 5]
    assert '"best_val_exact"' in capsys.readouterr().out


def test_train_takes_a_curriculum_and_the_device_that_is_there(tmp_path):
    given = ["train", "--run-name", "it", "--out", str(tmp_path), *PUBLISHED, *SMALL]
    assert main([*given, "--curriculum", "2:4,5:1", "--device", "auto"]) == 0
    config = json.loads((tmp_path / "it" / "config.json").read_text())
    assert config["train"]["curriculum"] == [[2, 4], [5, 1]]
    assert config["device"] == present_devices()[0]


def test_train_can_go_without_a_curriculum(tmp_path):
    given = ["train", "--run-name", "it", "--out", str(tmp_path), *PUBLISHED, *SMALL]
    assert main([*given, "--curriculum", "none", "--sparse-share", "0.5"]) == 0
    config = json.loads((tmp_path / "it" / "config.json").read_text())
    assert config["train"]["curriculum"] == []
    assert config["train"]["sparse_share"] == 0.5


def test_train_of_several_seeds_reports_the_fraction(tmp_path, capsys):
    given = ["train", "--run-name", "many", "--out", str(tmp_path), *PUBLISHED, *SMALL]
    assert main([*given, "--seed", "7", "--seeds", "2", "--workers", "1"]) == 0
    assert "0 of 2 seeds grokked" in capsys.readouterr().out
    group = json.loads((tmp_path / "many" / "summary.json").read_text())
    assert [run["seed"] for run in group["runs"]] == [7, 8]
    for seed in (7, 8):
        assert (tmp_path / "many" / f"seed_{seed}" / "checkpoints" / "last.pt").is_file()


def test_evaluate_counts_every_test_set_and_lists_the_failures(tmp_path, saved, capsys):
    output = tmp_path / "result.json"
    assert main(["evaluate", str(saved), "--output", str(output)]) == 0
    result = json.loads(output.read_text())
    assert list(result["per_seed"]) == [
        "41", "100", "200", "300", "400", "500", "999", "1234", "7777", "31415",
    ]  # fmt: skip
    assert result["total"] == 500
    assert result["total"] - result["exact"] == len(result["failures"])
    for failure in result["failures"]:
        assert failure["sum"] == failure["a"] + failure["b"] != failure["answer"]
    assert f"Exact: {result['exact']} of 500." in capsys.readouterr().out


def test_a_score_counts_exact_sums_and_right_digits():
    pairs = random_pairs(20)
    answers = encode(pairs)[:, 22:]
    answers[3, 0] = (answers[3, 0] + 1) % 10
    answers[8, 5] = 12
    result = score(lambda asked: answers, pairs, seed=1)
    assert (result.exact, result.total) == (18, 20)
    assert result.token_accuracy == pytest.approx(1 - 2 / 220)
    assert [(f.a, f.b) for f in result.failures] == [(pairs.a[k], pairs.b[k]) for k in (3, 8)]
    assert result.failures[1].answer is None


def test_both_ways_to_answer_agree(monkeypatch):
    checkpoint = random_checkpoint()
    asked = data.prompts(random_pairs(60))
    compiled = answerer(checkpoint)(asked)
    monkeypatch.setattr(evaluate, "runs_compiled", lambda config: False)
    assert (answerer(checkpoint)(asked) == compiled).mean() > 0.99


def test_the_benchmark_asks_for_the_test_parts_and_nothing_else():
    seen = []

    def remember(asked):
        seen.append(asked)
        return np.zeros((len(asked), 12), np.int64)

    benchmark(remember)
    assert np.array_equal(seen[0], data.prompts(holdout(41).test))
    assert len(seen) == 10


def test_predict_says_whether_it_was_right(saved, capsys):
    code = main(["predict", "12", "34", "--checkpoint", str(saved)])
    printed = capsys.readouterr().out
    assert printed.startswith("12 + 34 = ")
    assert code == (0 if "(right)" in printed else 1)
    assert "(right)" in printed or "it is 46" in printed


@pytest.mark.parametrize("operand", ["-1", "1e3", "10000000000", "\N{ARABIC-INDIC DIGIT FOUR}"])
def test_an_operand_out_of_range_is_refused(saved, operand, capsys):
    with pytest.raises(SystemExit):
        main(["predict", "1", operand, "--checkpoint", str(saved)])
    assert "is not a whole number from 0 to 9999999999" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["train", "--run-name", "x", "--tie-qkv", "shareA"], "it needs a qkv_rank."),
        (["train", "--run-name", "x", "--lr", "-1"], "lr is -1.0"),
        (["train", "--run-name", "x", "--curriculum", "11:5"], "digits of the curriculum is 11"),
        (["train", "--run-name", "x", "--device", "gpu"], "unknown device 'gpu'"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_no_file(
    given, message, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert main(given) == 2
    printed = capsys.readouterr().out
    assert message in printed
    assert "Traceback" not in printed
    assert not list(tmp_path.rglob("*.*"))


@pytest.mark.parametrize("content", [b"", b"no checkpoint", b"cut"])
def test_a_bad_published_checkpoint_is_refused_before_anything_is_trained(
    content, saved, tmp_path, monkeypatch, capsys
):
    def train(*_, **__):
        raise AssertionError("the training began")

    monkeypatch.setattr(log, "train_all", train)
    path = tmp_path / "published.pt"
    path.write_bytes(saved.read_bytes()[:-100] if content == b"cut" else content)
    out = tmp_path / "out"
    assert main(["log", "--published", str(path), "--out", str(out)]) == 2
    printed = capsys.readouterr().out
    assert printed.startswith("Error: ")
    assert str(path) in printed
    assert printed.count("\n") == 1
    assert not out.exists()


def test_a_device_that_is_not_there_is_refused(saved, capsys):
    absent = next(name for name in ("cuda", "mps") if name not in present_devices())
    for given in (
        ["evaluate", str(saved)],
        ["predict", "1", "2", "--checkpoint", str(saved)],
        ["log", "--published", str(saved)],
        ["train", "--run-name", "x"],
    ):
        assert main([*given, "--device", absent]) == 2
        assert f"device '{absent}' is not on this machine" in capsys.readouterr().out


def test_an_interrupt_says_how_to_go_on_where_that_can_be(saved, monkeypatch, capsys):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(training_command, "train_all", stop)
    assert main(["train", "--run-name", "x"]) == 130
    assert "goes on from the last evaluation" in capsys.readouterr().out
    monkeypatch.setattr(command, "load_checkpoint", stop)
    assert main(["evaluate", str(saved)]) == 130
    assert capsys.readouterr().out == "Stopped.\n"


def test_a_curriculum_that_cannot_be_read_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["train", "--run-name", "x", "--curriculum", "three"])
    assert "'three' is not of the form 3:2000,6:5000" in capsys.readouterr().err


def test_the_log_tells_what_its_runs_measured(tmp_path, saved, capsys):
    given = ["log", "--published", str(saved), "--out", str(tmp_path), "--train-steps", "2"]
    assert main([*given, "--workers", "1"]) == 0
    text = (tmp_path / "experiments_log.md").read_text()
    for seed in (43, 44):
        summary = json.loads((tmp_path / f"runs/repro_456_s{seed}/summary.json").read_text())
        assert f"best_val_exact = {summary['best_val_exact']}".replace("_", "\\_") in text
        assert (tmp_path / f"repro_456_s{seed}_eval.json").is_file()
    assert text.count("Did not grok.") == 2
    result = json.loads((tmp_path / "reference_456_s43_eval.json").read_text())
    assert f"The published checkpoint scores {result['exact']} of 500 here." in text
    for title in ("E1", "E2", "E3", "E4", "Environment", "Conclusion"):
        assert f"## {title}" in text
    assert log.PUBLISHED_MODEL.tie_qkv == "shareA_tieKV"


def test_the_cell_command_reports_its_seeds(tmp_path, capsys):
    given = ["cell", "--seeds", "2", "--updates", "2", "--sums", "100", "--out", str(tmp_path)]
    assert main(given) == 0
    content = json.loads((tmp_path / "cell.json").read_text())
    assert [result["seed"] for result in content["results"]] == [0, 1]
    assert {result["total"] for result in content["results"]} == {100}
    solved = sum(result["exact"] == 100 for result in content["results"])
    assert f"{solved} of 2 seeds add all 100 sums" in capsys.readouterr().out
