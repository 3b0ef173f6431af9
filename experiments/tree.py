"""Write docs/tree.md: every file of the packages, with the first sentence of its docstring."""

from collections.abc import Iterator
from pathlib import Path

from experiments.source import first_line

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "tree.md"
PACKAGES = ("engine", "hw_sim", "adapters", "golden", "experiments", "settle")
TOP = """# The tree

Every file with the first sentence of its docstring. `make tree` writes this page; a test compares
it with the code. How the rooms hang together is in [architecture.md](architecture.md).
"""


def page() -> str:
    """Return the page as it follows from the code."""
    return TOP + "".join(text for package in PACKAGES for text in _rooms(ROOT / package))


def _rooms(folder: Path) -> Iterator[str]:
    """Yield a table for the folder, and for each package inside it."""
    name = folder.relative_to(ROOT).as_posix()
    files = sorted(path for path in folder.glob("*.py") if path.name != "__init__.py")
    rows = "".join(f"| `{path.name}` | {_sentence(path)} |\n" for path in files)
    about = _sentence(folder / "__init__.py")
    yield f"\n## {name}/\n\n{about}\n\n| file | what it holds |\n|---|---|\n{rows}"
    for inner in sorted(path.parent for path in folder.glob("*/__init__.py")):
        yield from _rooms(inner)


def _sentence(path: Path) -> str:
    """Return the first line of a module's docstring."""
    return first_line(path).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
