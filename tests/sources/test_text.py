"""Lines of a file that others read meanwhile."""

from __future__ import annotations

from io import BytesIO

from tamis.sources.text import complete_lines


def test_a_file_may_be_read_elsewhere_between_two_lines() -> None:
    file = BytesIO(b"one\ntwo\nhalf")
    lines = complete_lines(file, 0, final=False)
    assert next(lines) == (b"one\n", 0, 4)
    file.seek(0)
    assert next(lines) == (b"two\n", 4, 8)
    file.seek(0)
    assert next(lines, None) is None
