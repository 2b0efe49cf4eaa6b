"""What is faster on a CPU gives what the plain way gives."""

from __future__ import annotations

import pytest
import torch
from torch import Generator

from tamis.model_view.passes import (
    FEW,
    argmax,
    largest,
    multiplied_by_onednn,
    prefers_onednn,
    softmax,
    softmax_,
    two_largest,
)


@pytest.mark.parametrize("columns", [2, FEW, FEW + 1, 500])
def test_the_largest_numbers_and_their_places_are_found(columns: int, generator: Generator) -> None:
    rows = torch.rand(40, columns, generator=generator)
    before, (values, places) = rows.clone(), rows.topk(2, dim=1)
    assert torch.equal(argmax(rows), places[:, 0])
    for found, expected in zip(largest(rows), (values[:, 0], places[:, 0]), strict=True):
        assert torch.equal(found, expected)
    for found, expected in zip(two_largest(rows), (values, places), strict=True):
        assert torch.equal(found, expected)
    assert torch.equal(rows, before)


@pytest.mark.parametrize("columns", [2, FEW, 500])
def test_softmax_is_the_same_where_it_is_written_over_its_logits(
    columns: int, generator: Generator
) -> None:
    logits = torch.randn(40, columns, generator=generator)
    expected = logits.softmax(dim=1)
    torch.testing.assert_close(softmax(logits), expected)
    torch.testing.assert_close(softmax_(logits), expected)


def test_onednn_multiplies_in_single_precision_and_no_longer_than_it_is_switched_on(
    generator: Generator,
) -> None:
    rows, weight = (torch.randn(128, 300, generator=generator) for _ in range(2))
    exact, cpu = (rows.double() @ weight.double().T).float(), torch.device("cpu")

    def multiply_and_fail() -> None:
        with multiplied_by_onednn(cpu):
            assert (rows @ weight.T - exact).abs().max() < 1e-3  # in bfloat16 it is 0.2 off
            raise KeyError

    with pytest.raises(KeyError):
        multiply_and_fail()
    if prefers_onednn():
        assert torch.backends.mkldnn.matmul.fp32_precision != "bf16"
