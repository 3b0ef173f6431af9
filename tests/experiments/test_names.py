"""A class of the experiments has a name of its own, so that an import says which one it is."""

import ast
from collections import defaultdict
from pathlib import Path

import experiments

ROOM = Path(experiments.__file__).parent


def test_no_two_classes_have_the_same_name():
    places = defaultdict(list)
    for path in ROOM.rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(path.relative_to(ROOM).as_posix())
    assert len(places) > 50
    assert {name: files for name, files in places.items() if len(files) > 1} == {}
