"""The experiments log: two trainings from scratch, their evaluation, and that of a reference."""

import json
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from experiments.addition.checkpoint import load_checkpoint
from experiments.addition.config import ModelConfig, TrainConfig
from experiments.addition.evaluate import answerer, as_result, benchmark
from experiments.addition.seed_run import GROKKED, SeedRun
from experiments.addition.train import train_all
from experiments.records import write_text
from experiments.reporting.document import Block, Bullets, Code, Document, Section
from experiments.reporting.markdown_page import render_markdown

PUBLISHED_MODEL = ModelConfig(
    pos_rank=3, qkv_rank=3, attn_out_rank=2, ffn_rank=3, use_rmsnorm=True, tie_qkv="shareA_tieKV"
)
SEEDS = (43, 44)


@dataclass(frozen=True)
class LogSettings:
    """Where the log and its runs go, and what it evaluates at the end."""

    out: Path
    published: Path
    device: str
    train_steps: int = 54_000
    workers: int = 2


def write_log(settings: LogSettings, say: Callable[[str], None]) -> Path:
    """Do experiments E1 to E4, each from what is there already, and write them as Markdown."""
    trainings = _train(settings, say)
    own = [
        _evaluate(settings, run.last, f"repro_456_s{run.train.seed}_eval.json", say)
        for run, _ in trainings
    ]
    reference = _evaluate(settings, settings.published, "reference_456_s43_eval.json", say)
    sections = [
        Section("Environment", (Bullets(_environment(settings.device)),)),
        *(
            _training_section(f"E{k}", settings, run, summary)
            for k, (run, summary) in enumerate(trainings, start=1)
        ),
        _evaluation_section("E3: Evaluate the reproduced checkpoints", own),
        _evaluation_section("E4: Evaluate the published checkpoint", [reference]),
        Section("Conclusion", (Bullets(_conclusions(trainings, reference)),)),
    ]
    path = settings.out / "experiments_log.md"
    write_text(path, render_markdown(Document("Experiments log", (), tuple(sections))))
    return path


def _train(
    settings: LogSettings, say: Callable[[str], None]
) -> list[tuple[SeedRun, dict[str, Any]]]:
    """Finish both trainings side by side."""
    runs = []
    for seed in SEEDS:
        folder = settings.out / "runs" / f"repro_456_s{seed}"
        train = TrainConfig(seed=seed, train_steps=settings.train_steps)
        run = SeedRun(folder, PUBLISHED_MODEL, train, settings.device, fresh=False)
        say(f"{folder.name}: {'done before' if run.finished else f'training from step {run.step}'}")
        runs.append(run)
    folders, trains = [run.folder for run in runs], [run.train for run in runs]
    summaries = train_all(
        folders, PUBLISHED_MODEL, trains, settings.device, workers=settings.workers
    )
    return list(zip(runs, summaries, strict=True))


def _evaluate(
    settings: LogSettings, path: Path, name: str, say: Callable[[str], None]
) -> tuple[Path, Path, dict[str, Any]]:
    say(f"evaluating {path}")
    checkpoint = load_checkpoint(path)
    scores = benchmark(answerer(checkpoint, settings.device))
    result = as_result(str(path), checkpoint, scores)
    output = settings.out / name
    write_text(output, json.dumps(result, indent=1))
    return path, output, result


def _training_section(
    name: str, settings: LogSettings, run: SeedRun, summary: dict[str, Any]
) -> Section:
    model = run.model
    command = (
        f"python -m experiments.addition train --run-name {run.folder.name} "
        f"--out {settings.out / 'runs'} --pos-rank {model.pos_rank} --qkv-rank {model.qkv_rank} "
        f"--attn-out-rank {model.attn_out_rank} --ffn-rank {model.ffn_rank} --use-rmsnorm "
        f"--tie-qkv {model.tie_qkv} --train-steps {run.train.train_steps} "
        f"--device {settings.device} --seed {run.train.seed}"
    )
    verdict = "Grokked." if summary["grokked"] else "Did not grok."
    finding = (
        f"Finding: {verdict} best_val_exact = {summary['best_val_exact']} (first at step "
        f"{summary['best_step']}) after {summary['steps']:,} steps; test_exact = "
        f"{summary['test_exact']} of that checkpoint on the seed's own 10,000 test sums; "
        f"{summary['elapsed_sec']:.0f} s."
    )
    outputs = f"Outputs: {run.folder / 'summary.json'}, {run.folder / 'metrics.csv'}"
    title = f"{name}: {summary['params']}p training reproduction (seed {run.train.seed})"
    return Section(title, (Code(command), Bullets((outputs, finding))))


def _evaluation_section(
    title: str, results: Sequence[tuple[Path, Path, dict[str, Any]]]
) -> Section:
    commands = "\n".join(
        f"python -m experiments.addition evaluate {path} --output {output}"
        for path, output, _ in results
    )
    findings = tuple(
        f"{output}: aggregate exact match {result['exact_match']} "
        f"({result['total'] - result['exact']:,}/{result['total']:,} errors)"
        for _, output, result in results
    )
    blocks: tuple[Block, ...] = (Code(commands), Bullets(findings))
    return Section(title, blocks)


def _conclusions(
    trainings: Sequence[tuple[SeedRun, dict[str, Any]]],
    reference: tuple[Path, Path, dict[str, Any]],
) -> tuple[str, ...]:
    solved = [str(summary["seed"]) for _, summary in trainings if summary["grokked"]]
    failed = [str(summary["seed"]) for _, summary in trainings if not summary["grokked"]]
    lines = []
    if solved:
        lines.append(
            f"Grokked ({GROKKED:.0%} of the test sums and more): seed {', '.join(solved)}."
        )
    if failed:
        lines.append(f"Did not grok: seed {', '.join(failed)}.")
    result = reference[2]
    lines.append(
        f"The published checkpoint scores {result['exact']:,} of {result['total']:,} here."
    )
    return tuple(lines)


def _environment(device: str) -> tuple[str, ...]:
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "numba", "torch"))
    return (
        f"Python {platform.python_version()} on {platform.system()} {platform.machine()}",
        packages,
        f"Device: {device}",
    )
