"""Places of rows by id."""

from __future__ import annotations

import random

from tamis.noise.annotators.places import Places


def test_places_are_used_again_and_ids_stay_in_order() -> None:
    draw = random.Random(0)  # noqa: S311
    places, known = Places(), list[int]()
    most = 0
    for _ in range(300):
        new = [draw.randrange(50) for _ in range(3)]
        places.add(new)
        known += [key for key in dict.fromkeys(new) if key not in known]
        most = max(most, len(known))
        gone = [draw.randrange(60) for _ in range(3)]
        places.remove(gone)
        known = [key for key in known if key not in gone]
        assert places.ids == known
        found = places.find(known).tolist()
        assert len(set(found)) == len(known)
        assert max(found, default=-1) < places.count <= most
    assert places.find([99]).tolist() == [-1]


def test_saved_and_loaded_it_gives_the_same_places() -> None:
    one, other = Places(), Places()
    one.add([5, 6, 7, 8])
    one.remove([6, 5])
    other.load_state_dict(one.state_dict())
    assert one.add([9, 10, 11]).tolist() == other.add([9, 10, 11]).tolist()
    assert one.ids == other.ids
