"""Tables: the layout of an encoded row."""

from tamis.models.tabular import TableLayout


def test_the_width_counts_numbers_codes_and_tokens() -> None:
    assert TableLayout(3, (4, 9), ((16, 1024), (8, 64))).width == 3 + 2 + 16 + 8
