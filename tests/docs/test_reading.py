"""The first pages are in short sentences, and prose is in the words of the field."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.reading import FIRST_PAGES, LIMIT, mean_length, not_words, sentences, words


@pytest.mark.parametrize("page", FIRST_PAGES)
def test_sentences_are_short(page: str) -> None:
    assert mean_length(page) < LIMIT


def test_what_counts_as_a_sentence() -> None:
    text = "# No\n\nOne two. Three `a b` [four](x.md).\n\n- five\n- six seven\n\n"
    text += "```sh\nno\n```\n| no |\n"
    found = sentences(text)
    assert [len(words(each)) for each in found] == [2, 3, 1, 2]


def test_a_word_of_the_list_is_found(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("The ke" + "eper is here.\n\n```sh\ngu" + "ard\n```\n")
    assert not_words(tmp_path / "page.md") == ["ke" + "eper"]
