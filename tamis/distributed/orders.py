"""Orders of the first rank, which owns a run, to all ranks; and their answers."""

from __future__ import annotations

from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from tamis.distributed.group import Ranks, connected
from tamis.distributed.wire import Message, decode, encode

NAMES = (
    "start", "read", "step", "held", "ids", "relabel", "remove", "audit", "drain", "save", "load",
    "acknowledge", "stats", "end",
)  # fmt: skip
PATIENCE = timedelta(days=1)
"""That an order may take to come: the first rank waits for records, and lists suspects at the end.
Should it die, its connections close, which is noticed at once."""


class Orders:
    """Carries orders from the first rank to all, and answers to the first rank.

    They cross on the CPU. `sent` of the ranks counts them as "orders" and "answers".
    """

    def __init__(self, ranks: Ranks) -> None:
        self.ranks = ranks
        self._group = None
        if ranks.size > 1:
            with connected():
                self._group = dist.new_group(backend="gloo", timeout=PATIENCE)

    def give(self, name: str, message: Message | None = None) -> None:
        """Send an order; the first rank calls it."""
        if self.ranks.size == 1:
            return
        sent = torch.empty(0, dtype=torch.uint8) if message is None else encode(message)
        self._broadcast(torch.tensor([NAMES.index(name), len(sent)]))
        if len(sent):
            self._broadcast(sent)

    def receive(self) -> tuple[str, Message]:
        """Return the next order; all other ranks call it."""
        head = torch.zeros(2, dtype=torch.long)
        self._broadcast(head)
        number, size = head.tolist()
        if not size:
            return NAMES[number], Message(None, {})
        sent = torch.empty(size, dtype=torch.uint8)
        self._broadcast(sent)
        return NAMES[number], decode(sent)

    def answer(self, mine: Message) -> list[Message]:
        """Send an answer; the first rank gets those of all, in their order, and others none."""
        ranks = self.ranks
        if ranks.size == 1:
            return [mine]
        if ranks.number:
            sent = encode(mine)
            with ranks.counting("answers", sent.nbytes + 8):
                dist.send(torch.tensor([len(sent)]), 0)
                dist.send(sent, 0)
            return []
        answers = [mine]
        with ranks.counting("answers", 0):
            for other in range(1, ranks.size):
                size = torch.zeros(1, dtype=torch.long)
                dist.recv(size, other)
                received = torch.empty(int(size), dtype=torch.uint8)
                dist.recv(received, other)
                answers.append(decode(received))
        return answers

    def _broadcast(self, sent: Tensor) -> None:
        others = 0 if self.ranks.number else self.ranks.size - 1
        with self.ranks.counting("orders", others * sent.nbytes):
            dist.broadcast(sent, 0, group=self._group)
