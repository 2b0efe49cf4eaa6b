"""Texts as features of a model of Hugging Face: the same for a text in any batch."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from tamis.sources import BadInputError, Schema, Validator, open_table
from tamis.sources.text_encoder import load_encoder
from tests.support.tiny_encoder import save_encoder

TEXTS = [
    "late parcel", "", "the parcel came early and all was well", "early", "late late late",
    "early parcel",
]  # fmt: skip


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    words = sorted({word for text in TEXTS for word in text.split()})
    return save_encoder(tmp_path_factory.mktemp("encoder") / "tiny", words)


@pytest.mark.slow
def test_features_do_not_depend_on_the_batch(encoder: Path) -> None:
    load = load_encoder.__wrapped__
    together = load(str(encoder))(TEXTS)
    alone = np.concatenate([load(str(encoder))([text]) for text in TEXTS])
    assert together.shape == (len(TEXTS), 16)
    assert np.abs(together - alone).max() <= 1e-4
    assert not together[1].any()
    assert len(np.unique(together, axis=0)) == len(TEXTS)


@pytest.mark.slow
def test_a_long_text_is_cut(encoder: Path) -> None:
    found = load_encoder(str(encoder))(["late " * 1000, "late " * 2000])
    assert np.array_equal(found[0], found[1])


@pytest.mark.slow
def test_the_schema_names_the_encoder(encoder: Path, tmp_path: Path) -> None:
    rows = [f"{text},{'yn'[at % 2]},{at}" for at, text in enumerate(TEXTS * 4)]
    (tmp_path / "t.csv").write_text("\n".join(["note,left,x", *rows]))
    table = open_table(tmp_path / "t.csv", "left", Validator(), text="note", encoder=str(encoder))
    assert table.left_out == ("x",)
    assert table.input_shape == (16,)
    schema = Schema.from_json(table.schema.to_json())
    assert schema == table.schema
    assert np.array_equal(schema.encode({"note": TEXTS}), load_encoder(str(encoder))(TEXTS))


@pytest.mark.slow
def test_what_cannot_be_had_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadInputError, match=r"The encoder .*empty cannot be had"):
        load_encoder(str(tmp_path / "empty"))
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(BadInputError, match=r"pip install 'tamis\[hf\]'"):
        load_encoder("another")
