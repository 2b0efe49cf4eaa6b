"""What a selector declares about itself."""

from __future__ import annotations

from tamis.selectors import RHO, Naive, Plausible
from tamis.selectors.protocol import preferred_warm_up, preferred_window


def test_the_view_and_warm_up_are_those_that_a_selector_declares() -> None:
    assert [(preferred_window(kind()), preferred_warm_up(kind())) for kind in (Plausible, RHO)] == [
        ("average", 0),
        ("average", 200),
    ]
    assert (preferred_window(Naive()), preferred_warm_up(Naive())) == (1, 200)
