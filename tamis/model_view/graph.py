"""Functions of tensors, played back as CUDA graphs: one launch in place of hundreds."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

PLAIN_CALLS = 3
"""Calls before a graph is recorded: lazy state of the optimiser and of cuDNN is made in them."""


class Graph:
    """Plays a function of tensors back as one CUDA graph, recorded after a few plain calls.

    The function answers with tensors only, and finds everything but its arguments where it was
    when it was recorded. It is recorded again where `key` or a shape changes.
    """

    def __init__(self) -> None:
        self._stream = torch.cuda.Stream()
        self._key: object = None
        self._calls = 0

    def __call__(
        self, key: object, run: Callable[..., tuple[Tensor, ...]], *given: Tensor
    ) -> tuple[Tensor, ...]:
        """Run the function on what is given, and return what it answers."""
        key = (key, [(part.shape, part.dtype) for part in given])
        if key != self._key:
            self._key, self._calls = key, 0
        self._calls += 1
        if self._calls <= PLAIN_CALLS:
            self._stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self._stream):
                answer = run(*given)
            torch.cuda.current_stream().wait_stream(self._stream)
            return answer
        if self._calls == PLAIN_CALLS + 1:
            self._given = tuple(part.clone() for part in given)
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph, stream=self._stream):
                self._answer = run(*self._given)
        for place, part in zip(self._given, given, strict=True):
            place.copy_(part)
        self._graph.replay()
        return tuple(part.clone() for part in self._answer)
