"""Settings that follow the kinds of inputs: pictures, texts, and features of texts."""

from __future__ import annotations

import pytest

from tamis.sources import Validator, open_table
from tamis.training.augment import DropTokens, ShiftAndFlip
from tamis.training.defaults import TableSettings
from tamis.training.kind_defaults import PictureSettings, TextSettings, settings_for

TEXTS = [f"a note of several words on day {row}" for row in range(40)]
LABELS = list("ab") * 20


@pytest.mark.parametrize("rows", [10, 1_000, 100_000, 1_000_000])
def test_pictures_held_take_a_gigabyte_at_the_most(rows: int) -> None:
    sized = PictureSettings(rows, shape=(3, 64, 64))
    assert 0 < sized.capacity * 3 * 64 * 64 <= 2**30
    assert sized.capacity <= rows
    assert sized.slots * sized.k >= rows
    assert sized.pool_size == 4 * sized.k <= 256
    assert sized.rows_per_slot(sized.slots) * (sized.slots // 4) >= rows
    assert sized.augment == ShiftAndFlip(5, flip=False)
    assert PictureSettings(rows, shape=(1, 8, 8)).augment == ShiftAndFlip(1, flip=False)


def test_a_text_alone_loses_n_grams_and_one_beside_others_does_not() -> None:
    frame = {"note": TEXTS, "age": [20 + row % 9 for row in range(40)], "y": LABELS}
    alone = settings_for(open_table(frame, "y", Validator(), text="note"))
    assert isinstance(alone, TextSettings)
    assert alone.augment == DropTokens(0.5)
    beside = settings_for(open_table(frame, "y", Validator()))
    assert type(beside) is TableSettings
    assert beside.augment is None
