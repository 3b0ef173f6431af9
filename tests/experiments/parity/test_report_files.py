import base64
import csv
import json
import re
import shutil
import subprocess
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from rich.console import Console

from experiments.contest import runs as contest_runs
from experiments.contest import summary as contest_summary
from experiments.contest.report_files import metrics_csv, results_json
from experiments.contest.result_tables import goals_table, statistics_table
from experiments.parity.report_content import build_document
from experiments.parity.report_files import print_summary, write_report
from experiments.parity.result_tables import headline_table
from experiments.parity.roster import PARITY
from tests.experiments.parity.parity_records import BEST, LEVELS, make_records
from tests.experiments.reporting.test_document_pages import parse

COMMAND = "python -m experiments.parity --seeds 3"
MACHINE = {"cpu": "test processor", "numpy": "2.3.5"}
PLOTS = {
    "accuracy",
    "gap",
    "gradient_cosine",
    "learning_curves",
    "relaxation_steps",
    "seconds_per_epoch",
}
EVIL = '<script>alert("$x")</script>|'


def summarise(records, best):
    return contest_summary.summarise(PARITY, records, best)


def arrange_runs(records):
    return contest_runs.arrange_runs(PARITY, records)


def report(folder, records, best=BEST):
    return write_report(records, folder, best_baseline=best, command=COMMAND, machine=MACHINE)


def printed(records, best=BEST, width=200):
    console = Console(width=width, force_terminal=False)
    with console.capture() as capture:
        print_summary(summarise(records, best), console)
    return capture.get()


@pytest.fixture(scope="module")
def records():
    mine = [
        replace(record, task="mine.csv", title=EVIL, returns=None)
        for record in make_records(["digits"])
    ]
    return [*make_records(), *mine]


@pytest.fixture(scope="module")
def folder(records, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    report(folder, records)
    return folder


@pytest.fixture(scope="module")
def page(folder):
    return (folder / "report.html").read_text(encoding="utf-8")


def test_every_file_is_there_and_nothing_else(folder):
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    plots = {f"plots/{name}.{kind}" for name in PLOTS for kind in ("png", "svg")}
    assert files == plots | {"report.md", "report.html", "results.json", "metrics.csv"}


def test_plots_are_pictures(folder):
    for name in PLOTS:
        assert (folder / f"plots/{name}.png").read_bytes().startswith(b"\x89PNG")
        ElementTree.parse(folder / f"plots/{name}.svg")


def test_the_page_is_well_formed_and_needs_nothing_else(page):
    checker = parse(page)
    assert checker.tags.count("img") == len(PLOTS)
    assert "script" not in checker.tags
    assert all(a.startswith(("data:image/svg+xml;base64,", "#")) for a in checker.addresses)
    assert not re.search(r"https?:|url\(|@import", page)


def test_drawings_in_the_page_load_nothing(page):
    drawings = re.findall(r"data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)", page)
    assert len(drawings) == 4 * len(PLOTS)  # light and dark, for a desk and for a phone
    for drawing in drawings:
        root = ElementTree.fromstring(base64.b64decode(drawing))
        links = [v for node in root.iter() for k, v in node.attrib.items() if k.endswith("href")]
        assert all(link.startswith("#") for link in links)
        assert not list(root.iter("{http://www.w3.org/2000/svg}script"))


def test_a_malicious_title_stays_text(folder, page):
    assert EVIL not in page
    assert any(EVIL in text for text in parse(page).text)
    assert "<script>" not in (folder / "report.md").read_text().replace(r"\<script>", "")


def test_the_command_the_machine_and_the_plots_are_in_both_reports(folder, page):
    markdown = (folder / "report.md").read_text(encoding="utf-8")
    for text in (markdown, page):
        assert COMMAND in text
        assert "test processor" in text
        assert "works against EqProp" in text
    for path in re.findall(r"!\[.*?\]\((.*?)\)", markdown):
        assert (folder / path).exists()


def test_the_headline_has_published_and_own_numbers(records):
    first, _, mine = headline_table(summarise(records, BEST)).rows
    assert first[:3] == ("Digits 8x8", "97.04 ± 0.35", "94.63 ± 0.73")
    assert first[3:6] == ("98.49 ± 0.04\n(MLP)", "98.50 ± 0.04", "98.45 ± 0.04")
    assert first[7].text == "equivalent"
    assert mine[1] == mine[2] == "\N{EN DASH}"


def test_the_tests_are_listed_for_both_networks_and_for_the_same_network(records):
    rows = statistics_table(PARITY, summarise(records, BEST)).rows
    pairs = [(row[1], row[2]) for row in rows if row[0] == "Digits 8x8"]
    assert pairs == [("looped", "MLP"), ("layered", "MLP"), ("looped", "BPTT")]
    assert {row[3] for row in rows} == {"3"}
    assert rows[0][5] == "±0.50"


def test_missed_goals_are_printed_as_missed():
    low = make_records(["digits"], LEVELS | {"eqprop_looped": 0.94})
    row = goals_table(PARITY, summarise(low, BEST)).rows[0]
    assert (row[3].text, row[6].text) == ("missed", "missed")
    text = printed(low)
    assert text.count("missed") == 2
    assert "Goals reached: 0 of 2. Missed: accuracy on Digits 8x8, gap on Digits 8x8." in text
    assert "worse on Digits 8x8" in text


def test_chance_is_never_printed_as_parity():
    text = printed(make_records(["digits"], dict.fromkeys(LEVELS, 0.5)))
    assert "at chance" in text
    assert "equivalent" not in text
    assert "reached 0 of" not in text


@pytest.mark.parametrize("width", [80, 120])
def test_the_terminal_shows_headline_controls_and_returns(records, width):
    text = printed(records, width=width)
    for word in ("98.50", "frozen", "Random actions", "500.0", "Majority", "Missing:", EVIL[:20]):
        assert word in text
    assert max(map(len, text.splitlines())) <= width


def test_metrics_have_a_row_for_every_run_and_epoch(folder, records):
    with (folder / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == sum(len(record.curve) for record in records)
    assert rows[0]["contestant"] == "eqprop_looped"
    assert float(rows[0]["cosine"]) == pytest.approx(0.999)
    assert [row["free_steps"] for row in rows if row["contestant"] == "readout_only"] == [""] * 36


def test_results_hold_every_run_and_no_nan(folder, records):
    content = json.loads((folder / "results.json").read_text())
    assert len(content["runs"]) == len(records)
    assert content["runs"][0]["settings"]["beta"] == 0.02
    assert content["machine"] == MACHINE
    assert content["summary"]["tasks"][0]["judgements"]["eqprop_looped"]["verdict"] == "equivalent"


def test_results_of_one_seed_are_strict_json():
    records = make_records(["digits"], seeds=(42,))
    records[0].settings["lr"] = np.float32(0.5)
    text = results_json(summarise(records, BEST), arrange_runs(records), COMMAND, MACHINE)
    content = json.loads(text, parse_constant=lambda word: pytest.fail(word))
    assert content["summary"]["tasks"][0]["results"]["eqprop_looped"]["std"] is None
    assert content["runs"][0]["settings"]["lr"] == 0.5


def test_the_same_records_in_another_order_give_the_same_files(folder, records, tmp_path):
    report(tmp_path, records[::-1])
    for path in folder.rglob("*"):
        if path.is_file():
            assert path.read_bytes() == (tmp_path / path.relative_to(folder)).read_bytes(), path


@pytest.mark.parametrize(
    "names",
    [
        [],
        ["eqprop_looped"],
        ["no_recurrence"],
        ["eqprop_layered", "backprop_looped", "readout_only"],
    ],
)
def test_a_report_is_made_of_whatever_ran(names, tmp_path):
    records = make_records(["mine.csv"], {name: LEVELS[name] for name in names}, (42,))
    summary = report(tmp_path, records)
    markdown = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert all(sentence.split(":")[0] in markdown for sentence in summary.missing)
    parse((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert len(metrics_csv(arrange_runs(records)).splitlines()) == 1 + 4 * len(records)


def test_a_task_of_controls_only_is_drawn_beside_a_complete_one(tmp_path):
    controls = make_records(["mine.csv"], {"no_recurrence": 0.9})
    summary = report(tmp_path, [*make_records(["digits"]), *controls])
    assert "mine.csv: no backprop baseline ran, so nothing is compared." in summary.missing
    assert {path.stem for path in (tmp_path / "plots").glob("*.png")} == PLOTS


def test_runs_without_curves_leave_their_plots_out(tmp_path):
    report(tmp_path, [replace(record, curve=()) for record in make_records(["digits"])])
    plots = {path.stem for path in (tmp_path / "plots").glob("*.svg")}
    assert plots == {"accuracy", "gap", "seconds_per_epoch"}


def test_a_lonely_baseline_is_not_called_the_better_one():
    records = [r for r in make_records(["digits"]) if r.contestant != "backprop_looped"]
    summary = summarise(records, {})
    document = build_document(PARITY, summary, arrange_runs(records), {}, COMMAND, MACHINE)
    bullets = document.sections[-1].blocks[0].items
    assert "the only one that ran" in bullets[-1]
    assert not any("works against EqProp" in item for item in bullets)


def test_a_browser_shows_the_page(folder, tmp_path):
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed, so the page is only checked by its parser")
    flags = (
        "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync "
        "--disable-background-networking --disable-component-update --enable-logging=stderr "
        f"--user-data-dir={tmp_path / 'profile'} --window-size=1200,3000 --dump-dom"
    )
    address = (folder / "report.html").as_uri()
    shown = subprocess.run(
        [chromium, *flags.split(), address], capture_output=True, text=True, timeout=120, check=True
    )
    checker = parse(shown.stdout)
    assert checker.tags.count("img") == len(PLOTS)
    assert checker.tags.count("table") == 9
    assert {"Clone of EqProp looped", "Random actions", "equivalent"} <= set(checker.text)
    assert "CONSOLE" not in shown.stderr, "the page must load without a complaint of the browser"


def test_own_data_is_not_said_to_be_tuned_nor_published(tmp_path):
    report(tmp_path, make_records(["mine.csv"]))
    markdown = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "mine.csv: all contestants share one budget of settings" in markdown
    assert "published" not in markdown
    assert "Tasks that were not run" not in markdown
    write_report(
        make_records(["mine.csv"]),
        tmp_path,
        best_baseline={"mine.csv": "backprop_looped"},
        command=COMMAND,
        machine=MACHINE,
    )
    markdown = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "mine.csv: settings were chosen on its validation part" in markdown
