"""The files of a release agree with each other, and say only what the package has."""

import re
import tomllib

from settle.commands import commands
from settle.packages import PACKAGES, ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_version_and_licence_are_the_same_everywhere() -> None:
    project = PROJECT["project"]
    assert f"version: {project['version']}\n" in text_of("CITATION.cff")
    assert f"license: {project['license']}\n" in text_of("CITATION.cff")
    assert f"\n## {project['version']}\n" in text_of("CHANGELOG.md")
    assert text_of("LICENSE").startswith("BSD 3-Clause License")
    assert project["license-files"] == ["LICENSE"]
    authors = re.findall(r"The Settle developers", text_of("LICENSE") + text_of("CITATION.cff"))
    assert len(authors) == 2


def test_every_command_that_is_named_exists() -> None:
    text = text_of("CHANGELOG.md") + text_of("README.md")
    named = set(re.findall(r"`settle ([a-z]\w*)", text))
    assert {"parity", "doctor"} <= named <= {*commands(), "doctor"}


def test_every_package_is_in_the_wheel() -> None:
    included = PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]
    assert {f"{name}*" for name in (*PACKAGES, "settle")} == set(included)
    assert PROJECT["project"]["scripts"] == {"settle": "settle.__main__:main"}
