"""Output folders: what is refused before the work, what is left as it was, what is swept."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.output import OutputError, prepare_output
from experiments.records import partial_path


@pytest.fixture
def dead():
    """The number of a process that is gone."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def everything(folder):
    return sorted(folder.rglob("*"))


@pytest.mark.parametrize("folder", [".", "new", "new/and/deep"])
def test_a_folder_that_can_be_is_left_as_it_was(folder, tmp_path):
    (tmp_path / "report.html").write_text("old")
    prepare_output(tmp_path / folder, "report.html", "plots/gap.png", "runs/one.json")
    assert everything(tmp_path) == [tmp_path / "report.html"]
    assert (tmp_path / "report.html").read_text() == "old"


def test_folders_that_were_there_stay(tmp_path):
    (tmp_path / "out" / "empty").mkdir(parents=True)
    prepare_output(tmp_path / "out", "empty/report.html", "plots/gap.png")
    assert everything(tmp_path) == [tmp_path / "out", tmp_path / "out" / "empty"]


@pytest.mark.parametrize(
    ("folder", "name", "reason"),
    [
        ("file", "report.html", "file is no folder."),
        ("file/out", "report.html", "file is no folder."),
        (".", "file/one.json", "file is no folder."),
        (".", "folder", "it is a folder."),
        (".", "x" * 250, "File name too long."),
        ("x" * 300, "report.html", "File name too long."),
        ("a\0b", "report.html", "embedded null byte."),
    ],
)
def test_what_cannot_be_written_is_one_sentence(folder, name, reason, tmp_path):
    (tmp_path / "file").write_text("a file")
    (tmp_path / "folder").mkdir()
    before = everything(tmp_path)
    with pytest.raises(OutputError, match="cannot be written") as refused:
        prepare_output(tmp_path / folder, name)
    assert str(refused.value).startswith(str(tmp_path / folder / name))
    assert str(refused.value).endswith(reason)
    assert everything(tmp_path) == before


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="there is no folder that takes no file")
@pytest.mark.parametrize("folder", ["/proc", "/proc/new"])
def test_only_an_attempt_tells_that_a_folder_takes_no_file(folder):
    with pytest.raises(OutputError, match=rf"^{folder}/report.html cannot be written: [A-Z]"):
        prepare_output(Path(folder), "report.html")


@pytest.mark.skipif(os.name != "posix", reason="elsewhere a process cannot be asked for")
def test_torn_files_of_dead_processes_are_swept_and_nothing_else(dead, tmp_path):
    alive = os.getppid()
    torn = [
        tmp_path / f"report.html.{dead}.part",
        tmp_path / f"free.cir.{dead}.part",
        tmp_path / "runs" / f"digits-eqprop-42.json.{dead}.part",
        tmp_path / "checkpoints" / f"last.pt.{dead}.part",
    ]
    others = [
        tmp_path / "runs" / f"digits-eqprop-43.json.{alive}.part",
        partial_path(tmp_path / "runs" / "mine.json"),
        tmp_path / "runs" / f"film.mkv.{dead}.part",
        tmp_path / "runs" / "notes.json.part",
        tmp_path / "runs" / "notes.json.x.part",
        tmp_path / "runs" / f"notes.json.{2**70}.part",
        tmp_path / "elsewhere" / f"report.html.{dead}.part",
    ]
    for path in [*torn, *others]:
        path.parent.mkdir(exist_ok=True)
        path.write_text("{")
    folder = tmp_path / "runs" / f"folder.json.{dead}.part"
    folder.mkdir()
    prepare_output(tmp_path, "report.html", "runs/one.json", "checkpoints/last.pt")
    assert sorted(p for p in everything(tmp_path) if p.is_file()) == sorted(others)
    assert folder.is_dir()


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="it needs /proc to know a dead one")
def test_a_dead_process_that_nobody_has_waited_for_is_dead(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    process.stdout.read()  # until it is gone
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    torn = tmp_path / f"report.html.{process.pid}.part"
    torn.write_text("{")
    prepare_output(tmp_path, "report.html")
    assert not torn.exists()
    process.communicate()
