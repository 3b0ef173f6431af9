"""Machines: what a file says of stages, and what is refused in one sentence."""

from pathlib import Path

import pytest

from hw_sim.prices.checks import TechnologyError
from hw_sim.prices.machine import Machine, Resource
from hw_sim.prices.technology import load_technologies, shipped_technologies

FIELDS = 'value = 4, low = 3, high = 7, node = "45 nm", source = "a book", status = "ran"'


def load(tmp_path: Path, machine: str) -> Machine:
    """Read a technology with times for `mac` and `hop`."""
    path = tmp_path / "my.toml"
    path.write_text(
        f'[mine]\ntitle = "Mine"\n{machine}\n[mine.energy]\nmac = {{ unit = "pJ", {FIELDS} }}\n'
        f'[mine.latency]\nmac = {{ unit = "ns", {FIELDS} }}\nhop = {{ unit = "ns", {FIELDS} }}'
    )
    return load_technologies(path)["mine"].machine


def test_stages_keep_their_order_and_say_what_hides_behind_them(tmp_path: Path) -> None:
    machine = load(
        tmp_path,
        'machine.hop = { per = "line", shared_by = 8 }\n'
        'machine.mac = { per = "unit", count = 2 }\n'
        'machine.behind = { mac = ["state_read", "weight_read"] }',
    )
    assert list(machine.stages) == ["hop", "mac"]
    assert machine.stages == {"hop": Resource("line", 1, 8), "mac": Resource("unit", 2)}
    assert machine.behind == {"state_read": "mac", "weight_read": "mac"}
    assert [machine.times(kind) for kind in ("hop", "mac", "state_read")] == [True, True, False]
    with pytest.raises(TechnologyError, match="neither how long 'message' takes nor what it hides"):
        machine.times("message")


def test_without_a_table_events_follow_one_another_and_the_rest_is_hidden(tmp_path: Path) -> None:
    machine = load(tmp_path, "")
    assert not machine.overlaps
    assert load(tmp_path, BOTH + "machine.overlaps = true").overlaps
    assert machine.stages == {"mac": Resource("chip", 1), "hop": Resource("chip", 1)}
    assert not machine.times("message")


@pytest.mark.parametrize(
    ("parts", "count", "shared_by", "turns", "lanes"),
    [(10, 1, 1, 1, 10), (10, 1, 4, 4, 3), (10, 2, 4, 2, 6), (3, 1, 8, 3, 1), (10, 3, 4, 2, 9)],
)
def test_a_resource_takes_turns(
    parts: int, count: int, shared_by: int, turns: int, lanes: int
) -> None:
    resource = Resource("line", count, shared_by)
    assert (resource.turns(parts), resource.lanes(parts)) == (turns, lanes)


BOTH = 'machine.hop = { per = "chip" }\nmachine.mac = { per = "chip" }\n'


@pytest.mark.parametrize(
    ("machine", "message"),
    [
        ("machine = 3", "machine is 3, expected a table of stages"),
        ('machine.mac = { per = "chip" }', "has no stage for the latency of 'hop'"),
        (BOTH + 'machine.cell_read = { per = "chip" }', "'cell_read': there is no latency of"),
        ("machine.hop = 1", "machine of 'hop' is 1, expected a table with per"),
        ("machine.hop = {}", "machine of 'hop' has per None; known: chip, unit, line, array"),
        ('machine.hop = { per = "core" }', "has per 'core'; known: chip, unit, line, array"),
        ('machine.hop = { per = ["unit"] }', r"has per \['unit'\]; known: chip"),
        ('machine.hop = { per = "unit", count = 0 }', "has count 0, expected from 1"),
        ('machine.hop = { per = "unit", shared_by = 1.5 }', "has shared_by 1.5, expected from 1"),
        ('machine.hop = { per = "unit", colour = 1 }', "has the unknown field 'colour'"),
        (
            'machine.mac = { per = "tile" }',
            "'mac' is per tile: only a hop is worked off by routers",
        ),
        (BOTH + "machine.batch = 0", "machine has batch 0, expected from 1"),
        (BOTH + "machine.overlaps = 1", "machine has overlaps 1 and batch 1, expected true or"),
        (
            BOTH + "machine.overlaps = true\nmachine.batch = 2",
            "overlaps True and batch 2, expected",
        ),
        (BOTH + "machine.behind = 3", "machine behind is 3, expected a table of lists"),
        (BOTH + "machine.behind = { message = [] }", "behind 'message': there is no such stage"),
        (BOTH + "machine.behind = { mac = 3 }", "behind 'mac' is 3, expected a list"),
        (BOTH + 'machine.behind = { mac = ["thought"] }', "has kind 'thought'; known: mac"),
        (BOTH + 'machine.behind = { mac = ["hop"] }', "behind 'mac' has 'hop', stated twice"),
        (
            BOTH + 'machine.behind = { mac = ["message"], hop = ["message"] }',
            "behind 'hop' has 'message', stated twice",
        ),
    ],
)
def test_a_bad_machine_gets_one_sentence(tmp_path: Path, machine: str, message: str) -> None:
    with pytest.raises(TechnologyError, match=message):
        load(tmp_path, machine)


def test_every_shipped_machine_times_or_hides_all_that_it_prices() -> None:
    """No event that has an energy is forgotten."""
    for technology in shipped_technologies().values():
        assert technology.machine.stated
        for kind in technology.prices["energy"]:
            technology.takes_time(kind)
