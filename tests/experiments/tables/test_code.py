"""The fingerprint of code changes with what code does, and with nothing else."""

from pathlib import Path

from experiments.tables.code import bare, code_files, code_fingerprint

CODE = '''"""What it is."""

RATE = 0.1  # of learning
"""Of each step."""


def double(x):
    """Return twice."""
    text = "# no comment"
    return 2 * x  # plainly
'''


def test_comments_docstrings_and_empty_lines_are_left_out() -> None:
    assert bare(CODE).splitlines() == [
        "RATE = 0.1",
        "def double(x):",
        '    text = "# no comment"',
        "    return 2 * x",
    ]


def _fingerprint(folder: Path, text: str, name: str = "a.py") -> str:
    place = folder / str(len(list(folder.iterdir()))) / "engine"
    place.mkdir(parents=True)
    (place / name).write_text(text, encoding="utf-8")
    return code_fingerprint(("engine/**/*",), place.parent)


def test_a_fingerprint_follows_the_code_and_its_place(tmp_path: Path) -> None:
    first = _fingerprint(tmp_path, CODE)
    assert first == _fingerprint(tmp_path, CODE.replace("plainly", "at once"))
    assert first == _fingerprint(tmp_path, CODE.replace("Return twice.", "Return it, doubled."))
    assert first != _fingerprint(tmp_path, CODE.replace("2 * x", "3 * x"))
    assert first != _fingerprint(tmp_path, CODE.replace("0.1", "0.2"))
    assert first != _fingerprint(tmp_path, CODE, name="b.py")


def test_every_character_of_a_table_of_prices_counts(tmp_path: Path) -> None:
    prices = "mac = 1.0  # pJ\n"
    first = _fingerprint(tmp_path, prices, name="a.toml")
    assert first != _fingerprint(tmp_path, prices.replace("pJ", "nJ"), name="a.toml")


def test_a_file_counts_once_however_many_patterns_it_fits(tmp_path: Path) -> None:
    (tmp_path / "a.folder").mkdir()
    (tmp_path / "a.py").write_text("", encoding="utf-8")
    assert code_files(("*.py", "a.*", "b.*"), tmp_path) == [tmp_path / "a.py"]
