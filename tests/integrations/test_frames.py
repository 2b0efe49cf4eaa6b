"""find_suspects on frames: what comes back, of which kind, and that it finds wrong labels."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas
import polars
import pytest
import torch
from PIL import Image
from sklearn.base import clone

import tamis
from tamis.integrations.frames import suspect_frame, values_by_text
from tamis.integrations.sklearn import TamisClassifier
from tamis.runs import Suspect
from tamis.sources import BadInputError
from tests.support.customers import customers

WRONG = (3, 40, 77, 120, 199)


def rows() -> list[dict[str, Any]]:
    """Return customers of which a few have a wrong label, as a frame would hold it: 0 or 1."""
    found = []
    for at, row in enumerate(customers(200)):
        left = int(row["left"] == "yes")
        found.append(row | {"town": "Oslo" if left else "Rome", "left": left ^ (at in WRONG)})
    return found


@pytest.mark.slow
def test_pandas_in_pandas_out() -> None:
    frame = pandas.DataFrame(rows(), index=[f"r{at}" for at in range(200)])
    frame["joined"] = pandas.to_datetime(frame["joined"])
    before, state = frame.copy(), torch.get_rng_state()
    found = tamis.find_suspects(frame, label="left")
    assert torch.equal(torch.get_rng_state(), state)
    pandas.testing.assert_frame_equal(frame, before)
    assert isinstance(found, pandas.DataFrame)
    assert list(found) == ["row", "given", "suggested", "score"]
    assert set(found["row"][:5]) == set(WRONG)
    assert found["score"].is_monotonic_decreasing
    assert found["score"].between(0.5, 1).all()
    assert (frame.loc[found.index, "left"] == found["given"]).all()
    assert (found["given"] + found["suggested"] == 1).all()


@pytest.mark.slow
def test_polars_in_polars_out() -> None:
    frame = polars.DataFrame(rows())
    found = tamis.find_suspects(frame, "left", drop=["name"])
    assert isinstance(found, polars.DataFrame)
    assert set(found["row"][:5]) == set(WRONG)
    assert found["given"].dtype == polars.Int64


@pytest.mark.slow
def test_records_and_columns_come_back_as_records(tmp_path) -> None:
    records = rows()
    found = tamis.find_suspects(records, "left")
    assert {row["row"] for row in found[:5]} == set(WRONG)
    columns = {name: [row[name] for row in records] for name in records[0]}
    assert tamis.find_suspects(columns, "left") == found
    pandas.DataFrame(records).to_parquet(tmp_path / "rows.parquet")
    by_name = tamis.find_suspects(str(tmp_path / "rows.parquet"), "left")
    assert [row["row"] for row in by_name[:5]] == [row["row"] for row in found[:5]]


@pytest.mark.slow
def test_a_frame_of_pictures_and_one_of_texts(tmp_path) -> None:
    labels = np.arange(60) % 2
    for at, label in enumerate(labels):
        shade = np.full((8, 8), 200 * label + at % 40, np.uint8)
        Image.fromarray(shade).save(tmp_path / f"{at}.png")
    given = np.where(np.arange(60) == 11, 0, labels)
    paths = [str(tmp_path / f"{at}.png") for at in range(60)]
    found = tamis.find_suspects(pandas.DataFrame({"path": paths, "kind": given}), "kind")
    assert found["row"][:1].tolist() == [11]
    notes = [f"parcel {at} came {'late' if label else 'early'}" for at, label in enumerate(labels)]
    frame = polars.DataFrame({"note": notes, "other": range(60), "kind": given})
    assert tamis.find_suspects(frame, "kind", text="note")["row"][0] == 11


SUSPECTS = (Suspect("2", "1", "0", 0.9, 2), Suspect("0", "0", "1", 0.6, 0))
COLUMNS = {"row": [2, 0], "given": [1, 0], "suggested": [0, 1], "score": [0.9, 0.6]}


def test_a_frame_is_of_the_kind_of_another() -> None:
    labels = {"x": [5, 6, 7], "y": [0, 0, 1]}
    values = values_by_text(np.array(labels["y"]))
    like = pandas.DataFrame(labels, index=["a", "b", "c"])
    found = suspect_frame(SUSPECTS, values, like)
    pandas.testing.assert_frame_equal(found, pandas.DataFrame(COLUMNS, index=["c", "a"]))
    assert suspect_frame(SUSPECTS, values, polars.DataFrame(labels)).equals(
        polars.DataFrame(COLUMNS)
    )
    records = [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)]
    assert suspect_frame(SUSPECTS, values, labels) == records
    none = suspect_frame([], values, like)
    assert list(none) == list(COLUMNS)
    assert (none["row"].dtype, none["score"].dtype) == (np.int64, np.float64)
    none = suspect_frame([], values, polars.DataFrame(labels))
    assert none.schema == polars.DataFrame(COLUMNS).schema


def test_mistakes_are_one_sentence() -> None:
    frame = pandas.DataFrame({"size": range(60), "kind": ["ant", "bee"] * 30})
    with pytest.raises(BadInputError, match="has no column 'kin'"):
        tamis.find_suspects(frame, "kin")
    with pytest.raises(BadInputError, match="one class only"):
        tamis.find_suspects(frame.assign(kind="ant"), "kind")


@pytest.fixture(scope="module")
def frame() -> pandas.DataFrame:
    found = pandas.DataFrame(rows(), index=[f"r{at}" for at in range(200)])
    return found.assign(joined=pandas.to_datetime(found["joined"]))


def test_the_classifier_takes_mixed_frames(frame: pandas.DataFrame) -> None:
    inputs, labels = frame.drop(columns="left"), frame["left"].map({0: "no", 1: "yes"})
    before, state = inputs.copy(), torch.get_rng_state()
    found = TamisClassifier(k=32, epochs=6).fit(inputs, labels)
    assert torch.equal(torch.get_rng_state(), state)
    pandas.testing.assert_frame_equal(inputs, before)
    assert found.schema_["joined"].kind == "datetime"
    assert found.feature_names_in_.tolist() == list(inputs)
    assert found.classes_.tolist() == ["no", "yes"]
    assert found.score(inputs, labels) > 0.9
    backwards = inputs[inputs.columns[::-1]].assign(town="Atlantis", age=None)
    assert found.predict_proba(backwards).shape == (200, 2)
    with pytest.raises(ValueError, match="has no column 'town'"):
        found.predict(inputs.rename(columns={"town": "city"}))
    suspects = found.suspects_
    assert set(WRONG) <= set(suspects["row"][:8])
    assert (labels[suspects.index] == suspects["given"]).all()
    again = pickle.loads(pickle.dumps(found))  # noqa: S301
    assert np.array_equal(again.predict_proba(inputs), found.predict_proba(inputs))
    assert again.suspects_.equals(suspects)
    few = [clone(found).set_params(epochs=1).fit(inputs, labels) for _ in range(2)]
    assert np.array_equal(*(each.predict_proba(inputs) for each in few))
    with pytest.raises(ValueError, match="NaN"):
        clone(found).fit(inputs, labels.where(labels == "no", np.nan))


def test_the_classifier_in_a_stream_of_mixed_frames(frame: pandas.DataFrame) -> None:
    inputs = polars.DataFrame(rows()).drop("left")
    found = TamisClassifier(k=16)
    for at in range(0, 200, 50):
        found.partial_fit(inputs[at : at + 50], frame["left"][at : at + 50], classes=[0, 1])
    assert found.predict(inputs).shape == (200,)
    assert isinstance(found.suspects_, list)


def test_the_classifier_finds_suspects_in_arrays() -> None:
    kinds = np.arange(60) % 2
    points = np.stack([4.0 * kinds, np.arange(60) / 60], axis=1)
    given = np.where(np.arange(60) == 7, 0, kinds)
    found = TamisClassifier(epochs=20, learning_rate=0.01).fit(points, given).suspects_
    assert [(row["row"], row["given"], row["suggested"]) for row in found] == [(7, 0, 1)]
