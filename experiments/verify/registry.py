"""Find the tracks: every module in `experiments.verify.tracks` that there is."""

import pkgutil
from collections.abc import Iterable
from importlib import import_module

from experiments.verify import tracks
from experiments.verify.track import Track, VerifyError


def all_tracks() -> dict[int, Track]:
    """Return every track by its number, in order."""
    found: dict[int, Track] = {}
    for module in pkgutil.iter_modules(tracks.__path__):
        track = getattr(import_module(f"{tracks.__name__}.{module.name}"), "TRACK", None)
        if not isinstance(track, Track):
            raise VerifyError(f"the file {module.name}.py in tracks defines no TRACK.")
        if track.number in found:
            raise VerifyError(f"two tracks have the number {track.number}.")
        found[track.number] = track
    return dict(sorted(found.items()))


def find_tracks(numbers: Iterable[int]) -> list[Track]:
    """Return the tracks of these numbers, once each and in order; all of them without numbers."""
    known, wanted = all_tracks(), set(numbers)
    for number in sorted(wanted - known.keys()):
        raise VerifyError(
            f"there is no track {number}; the tracks are {', '.join(map(str, known))}."
        )
    return [track for number, track in known.items() if not wanted or number in wanted]
