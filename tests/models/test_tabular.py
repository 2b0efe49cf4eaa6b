"""The model for tables against sums over single columns, bins and tokens, written out."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from torch import Tensor
from torch.func import functional_call, vmap

from tamis import Average, Growing, ModelView, Plausible, Samples, Trainer
from tamis.models.tabular import SOFT_LIMIT, NumberEmbedding, TableLayout, TableModel

LAYOUT = TableLayout(3, (4, 9), ((5, 50),))


def some_rows(count: int = 40, layout: TableLayout = LAYOUT) -> Tensor:
    draw = torch.Generator().manual_seed(0)
    numbers = torch.randn(count, layout.numbers, generator=draw) * 100
    codes = [torch.randint(size, (count, 1), generator=draw) for size in layout.categories]
    tokens = [torch.randint(most, (count, n), generator=draw) for n, most in layout.texts]
    return torch.cat([numbers, *codes, *tokens], dim=1)


def make_model(layout: TableLayout = LAYOUT, **settings: float) -> TableModel:
    torch.manual_seed(0)
    return TableModel(layout, 3, some_rows(layout=layout), width=8, members=4, bins=4, **settings)


def test_the_width_counts_numbers_codes_and_tokens() -> None:
    assert LAYOUT.width == 3 + 2 + 5


def test_numbers_are_embedded_bin_by_bin() -> None:
    column = torch.tensor([0.0, 1, 2, 4, 8, 16, 32, 64, 128])
    embedded = NumberEmbedding(column[:, None], 4)(torch.tensor([[3.0], [1000.0], [-7.0]]))
    edges = [0, 2, 8, 32, 128]

    def expected(value: float) -> list[float]:
        scaled = (value - 8) / ((32 - 2) / 1.349)
        bent = scaled / math.sqrt(1 + (scaled / SOFT_LIMIT) ** 2)
        places = [min(max((value - low) / (high - low), 0), 1) for low, high in pairwise(edges)]
        return [bent, *places]

    torch.testing.assert_close(embedded, torch.tensor([expected(3), expected(1000), expected(-7)]))
    assert embedded.abs().max() < SOFT_LIMIT


@pytest.mark.parametrize("column", [[5.0] * 30, [0.0] * 29 + [1.0], [0.0, 1.0] * 15])
def test_columns_of_few_values_stay_finite_and_distinct(column: list[float]) -> None:
    numbers = torch.tensor(column)[:, None]
    embedded = NumberEmbedding(numbers, 8)(numbers)
    assert embedded.isfinite().all()
    assert len(embedded.unique(dim=0)) == len(numbers.unique())


@pytest.mark.parametrize("column", [[0.0, 1e-3] * 8, [3e38, -3e38, 0.0, 1.0], [0.0, 1e-44] * 8])
def test_numbers_are_bounded_however_large(column: list[float]) -> None:
    huge = torch.tensor([[3.4e38], [-3.4e38], [1e20], [-1e20], [0.0], [1e-44]])
    embedding = NumberEmbedding(torch.tensor(column)[:, None], 8)
    embedded = embedding(huge)
    assert embedded.isfinite().all()
    assert embedded.abs().max() <= SOFT_LIMIT
    assert embedded[0, 0] >= embedded[2, 0] > 0 > embedded[3, 0] >= embedded[1, 0]


def test_texts_are_the_mean_of_their_tokens_without_padding() -> None:
    model = make_model(TableLayout(0, (), ((4, 50),)))
    table = model.texts[0].weight
    found = model.embed(torch.tensor([[7.0, 9, 0, 0], [0, 0, 0, 0]]))
    torch.testing.assert_close(found[0], (table[7] + table[9]) / 2)
    assert not found[1].any()


def test_missing_has_an_embedding_of_its_own() -> None:
    model = make_model(TableLayout(0, (4,)))
    assert torch.equal(
        model.embed(torch.tensor([[0.0], [2.0]])), model.categories[0].weight[[0, 2]]
    )


def test_logits_are_the_mean_of_the_members() -> None:
    model, rows = make_model().eval(), some_rows()
    embedded = model.embed(rows)
    weights = model.head.weight.reshape(3, 4, 8)
    each = [
        4 * model.trunk(embedded * model.signs[at]) @ weights[:, at].T + model.head.bias
        for at in range(4)
    ]
    torch.testing.assert_close(model(rows), torch.stack(each).mean(dim=0))


def test_in_training_each_row_goes_through_one_member() -> None:
    model = make_model(dropout=0.0).train()
    row = some_rows(1).repeat(200, 1)
    seen = {tuple(logits) for logits in (model(row) * 1e4).round().tolist()}
    assert len(seen) == 4
    torch.testing.assert_close(
        torch.tensor(list(seen)).mean(dim=0) / 1e4, model.eval()(row[:1])[0], atol=1e-3, rtol=1e-3
    )


def test_selectors_see_the_inputs_of_the_last_layer() -> None:
    model, rows = make_model(), some_rows()
    view = ModelView(model, Average())
    features, probabilities = view.features_and_probabilities(rows)
    assert features.shape == (40, 4 * 8)
    torch.testing.assert_close(model.head(features).softmax(dim=1), probabilities)
    state = dict(model.eval().named_parameters()) | dict(model.named_buffers())
    one_by_one = vmap(lambda row: functional_call(model, state, (row[None],))[0])(rows)
    torch.testing.assert_close(one_by_one, model(rows))


@pytest.mark.slow
def test_export_gives_the_same_numbers_for_any_number_of_rows() -> None:
    model, rows = make_model().eval(), some_rows()
    some = torch.export.Dim("rows", min=2)
    exported = torch.export.export(model, (rows,), dynamic_shapes=({0: some},)).module()
    torch.testing.assert_close(exported(rows[:7]), model(rows[:7]))


def test_it_learns_from_numbers_and_categories() -> None:
    rows = some_rows(400)
    labels = ((rows[:, 0] > 0).long() + (rows[:, 3] > 1).long()).clamp(max=2)
    model = make_model()
    trainer = Trainer(
        model, torch.optim.AdamW(model.parameters(), 0.01), Plausible(), Growing(400), k=64
    )
    trainer.step(Samples.of(rows, labels, 0))
    for _ in range(60):
        trainer.step()
    assert trainer.accuracy(rows, labels).ema > 0.95
