"""What a selector declares about itself."""

from __future__ import annotations

from tamis.noise import Estimate
from tamis.selectors import RHO, Naive, Plausible
from tamis.selectors.protocol import band_around, preferred_warm_up, preferred_window


def test_the_view_and_warm_up_are_those_that_a_selector_declares() -> None:
    assert [(preferred_window(kind()), preferred_warm_up(kind())) for kind in (Plausible, RHO)] == [
        ("average", 0),
        ("average", 200),
    ]
    assert (preferred_window(Naive()), preferred_warm_up(Naive())) == (1, 200)


def test_a_band_is_widened_to_a_ratio_found_otherwise() -> None:
    class Estimating:
        def estimate(self) -> Estimate:
            return Estimate(0.7, 0.6, 0.8)

    assert band_around(0.75, Estimating()) == (0.6, 0.8)
    assert band_around(0.9, Estimating()) == (0.6, 0.9)
    assert band_around(None, Estimating()) is None
    assert band_around(0.9, Naive()) is None
    assert band_around(0.9, Plausible()) is None  # before the first slot
