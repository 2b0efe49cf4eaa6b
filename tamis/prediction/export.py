"""Models for other tools: ONNX and torch.export, compared with `predict` before they are kept."""

from __future__ import annotations

import copy
import json
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tamis.errors import TamisError, needs_extra
from tamis.model_view.passes import logits_of
from tamis.prediction.predictor import Predictor
from tamis.sources.schema import write_schema

TOLERANCE = 1e-5
"""Difference from the probabilities of `predict` that an exported model may have."""
COMPARED, MOST_NUMBERS = 1000, 2**22
"""Rows that are compared, of large pictures fewer: so many numbers."""
INPUT, OUTPUT = "rows", "probabilities"
"""Names of what an exported model takes and returns."""

Run = Callable[[np.ndarray], np.ndarray]


class ModelExportError(TamisError, RuntimeError):
    """A model that could not be exported, or gave other numbers once it was."""


class WithProbabilities(nn.Module):
    """A model that returns the probability of each class."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = copy.deepcopy(model).cpu().float()

    def forward(self, rows: Tensor) -> Tensor:
        """Return probabilities, (rows, classes)."""
        return logits_of(self.model(rows), self.model).softmax(dim=1)


def write_onnx(predictor: Predictor, path: str | Path, rows: Tensor | None = None) -> float:
    """Write an ONNX model; return its largest difference from `predict`, at most 1e-5.

    It takes encoded rows, any number of them, as `schema.encode` returns them. Schema and class
    names are in its metadata, and the schema beside it as JSON. `rows` are encoded rows to compare
    on; without them, made-up ones.
    """
    with needs_extra("onnx"):
        import onnx
        import onnxscript  # noqa: F401
    example = example_rows(predictor, rows)

    def write(part: Path) -> None:
        program: Any = torch.onnx.export(
            WithProbabilities(predictor.model).eval(), (example[:2],), dynamo=True, verbose=False,
            input_names=[INPUT], output_names=[OUTPUT], dynamic_shapes=any_batch(),
        )  # fmt: skip
        program.model.metadata_props.update(metadata(predictor))
        program.save(part)
        onnx.checker.check_model(part)

    return write_checked(predictor, Path(path), write, onnx_runner, example)


def write_torch_export(predictor: Predictor, path: str | Path, rows: Tensor | None = None) -> float:
    """Write a program of torch.export; return its largest difference from `predict`, as for ONNX.

    Schema and class names are in its extra files, and the schema beside it as JSON.
    """
    example = example_rows(predictor, rows)

    def write(part: Path) -> None:
        wrapped = WithProbabilities(predictor.model).eval()
        program = torch.export.export(wrapped, (example[:2],), dynamic_shapes=any_batch())
        torch.export.save(program, part, extra_files=metadata(predictor))

    return write_checked(predictor, Path(path), write, torch_runner, example)


def any_batch() -> dict[str, Any]:
    """Return that the number of rows is free."""
    return {"rows": {0: torch.export.Dim("batch")}}


def metadata(predictor: Predictor) -> dict[str, str]:
    """Return what a program that runs the model must know, as texts."""
    schema = predictor.schema.to_json()
    return {"classes": json.dumps(schema["classes"]), "schema": json.dumps(schema)}


def write_checked(
    predictor: Predictor,
    path: Path,
    write: Callable[[Path], None],
    open_runner: Callable[[Path], Run],
    rows: Tensor,
) -> float:
    """Write a file, and keep it only if it gives the numbers of `predict`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=path.parent) as folder:
        part = Path(folder) / path.name
        try:
            with quiet():
                write(part)
                run = open_runner(part)
                # All rows, and one: a size that was fixed by mistake fails here.
                found = np.concatenate([run(rows.numpy()), run(rows[:1].numpy())])
        except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
            why = " ".join(str(error).split())[:200] or type(error).__name__
            raise ModelExportError(f"The model cannot be exported: {why}") from error
        wanted = predictor.probabilities(torch.cat([rows, rows[:1]])).numpy()
        worst = float(np.abs(found - wanted).max())
        if not worst <= TOLERANCE:
            raise ModelExportError(
                f"{path} was not written: its probabilities differ from those of predict by"
                f" {worst:.1e}, more than {TOLERANCE:.0e}."
            )
        part.replace(path)
    write_schema(path.with_suffix(".schema.json"), predictor.schema)
    return worst


@contextmanager
def quiet() -> Iterator[None]:
    """Hold back what torch and ONNX report to their own developers."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)


def onnx_runner(path: Path) -> Run:
    """Return a function that runs an ONNX model, by its runtime if that is installed."""
    try:
        from onnxruntime import InferenceSession
    except ImportError:
        from onnx.reference import ReferenceEvaluator

        session: Any = ReferenceEvaluator(path)
    else:
        session = InferenceSession(path, providers=["CPUExecutionProvider"])
    return lambda rows: np.asarray(session.run([OUTPUT], {INPUT: rows})[0])


def torch_runner(path: Path) -> Run:
    """Return a function that runs a program of torch.export."""
    module = torch.export.load(path).module()

    def run(rows: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            found: np.ndarray = module(torch.from_numpy(rows)).numpy()
        return found

    return run


def example_rows(predictor: Predictor, rows: Tensor | None) -> Tensor:
    """Return encoded rows to compare on, at least two; where none are given, made-up ones."""
    layout = predictor.schema.layout
    most = max(2, min(COMPARED, MOST_NUMBERS // max(layout.width, 1)))
    if rows is not None and len(rows):
        spread = rows[:: -(-len(rows) // most)].cpu().float()
        return spread if len(spread) > 1 else torch.cat([spread, spread])
    rng = torch.Generator().manual_seed(0)
    numbers = 10 * torch.randn(most, layout.numbers, generator=rng)
    codes = [torch.randint(n, (most, 1), generator=rng) for n in layout.categories]
    tokens = [torch.randint(n, (most, size), generator=rng) for size, n in layout.texts]
    return torch.cat([numbers, *codes, *tokens], dim=1).reshape(most, *predictor.schema.input_shape)
