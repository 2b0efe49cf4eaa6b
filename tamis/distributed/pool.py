"""The pool that all ranks pick from: some rows of every shard, whose inputs stay where they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tamis.data import Picks, Samples
from tamis.distributed.group import Ranks, RanksDifferError
from tamis.distributed.shard import Shard
from tamis.training.report import Compared

COLUMNS = 5
"""Of a row in the pool: label, id, uses, and clean and group, or none of them."""
UNKNOWN = -(2**63)
SIDES = 6
"""Dimensions of one input, at the most."""
KINDS = (
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32,
    torch.int16, torch.int8, torch.uint8, torch.bool,
)  # fmt: skip


class Header(NamedTuple):
    """What a shard sends about itself in every meeting."""

    alive: int
    chain: int
    held: int
    seen: int
    skipped: int
    drawn: int
    agreeing: int
    unsent: int
    kind: int


AT_CLASSES = len(Header._fields) + SIDES
"""Where the counts of labels and of predictions by class begin in the record of a shard."""


class SharedPool:
    """Some rows of every shard, the same on all ranks.

    In a meeting every rank sends, for each of its shards, a few numbers, counts by class of the
    rows that arrived, and the labels, ids and uses of the rows that it drew: `size` rows over all
    shards, the more the more a shard holds. Inputs stay where they are. In their place the pool has
    tickets, the positions of rows in it; `ask` turns them into what the owners of those rows
    compute.

    Between meetings (`apart`) the pool is what this rank's own shards drew.
    """

    def __init__(
        self, ranks: Ranks, shards: int, own: Sequence[Shard], size: int, classes: int
    ) -> None:
        self.ranks = ranks
        self.classes = classes
        self.shards = shards
        self.own = own
        self.size = size
        ranks_of = owners(shards, ranks.size)
        counts = ranks_of.bincount(minlength=ranks.size)
        self._rank_of = ranks_of.to(ranks.device)
        self._seats = int(counts.max())
        # Where each shard's record lies, among as many seats on every rank.
        self._at = (counts[:, None] > torch.arange(self._seats)).flatten().nonzero()[:, 0]
        self.apart = False
        self.alive = True
        self.held = self.seen = self.skipped = 0
        self.compared: Compared | None = None
        self.predictions: tuple[Tensor, Tensor] | None = None
        self._quotas = [max(1, size // shards)] * shards
        self._awaited = [0] * shards
        self._blank = torch.empty(1, 0)
        self._shard_of = self._row_of = self._uses = torch.empty(0, dtype=torch.long)

    @property
    def _fixed(self) -> int:
        """Numbers in the record of a shard that do not depend on its rows."""
        return AT_CLASSES + 2 * self.classes

    def grow(self, classes: int) -> None:
        """Count by so many classes."""
        self.classes = max(classes, self.classes)

    def meet(
        self, alive: bool, chain: int, watched: bool, meanwhile: Callable[[], None]
    ) -> Samples:
        """Exchange what selection needs, and return the rows that all ranks can pick from.

        Arriving rows are predicted `meanwhile`. Those predictions cross in the next meeting, row
        by row for a tracker if they are `watched`.
        """
        most, waiting = max(self._quotas), max(self._awaited)
        length = self._fixed + COLUMNS * most + 3 * waiting
        mine = torch.zeros(self._seats, length, dtype=torch.long, device=self.ranks.device)
        for seat, shard in enumerate(self.own):
            shard.draw(self._quotas[shard.number])
            self._write(mine[seat], shard, alive, chain, watched, most)
        everyone = self.ranks.gather("pool", mine, meanwhile).flatten(0, 1)
        return self._read(everyone[self._at], most)

    def draw_apart(self) -> Samples:
        """Return rows drawn from the shards of this rank alone."""
        for shard in self.own:
            shard.draw(self._quotas[shard.number])
        self.apart = True
        self.compared = self.predictions = None
        drawn = [len(shard.drawn) for shard in self.own]
        self._locate([shard.number for shard in self.own], drawn)
        none = torch.zeros(COLUMNS, 0, dtype=torch.long, device=self.ranks.device)
        return self._samples([none, *map(columns_of, self.own)])

    def use(self, rows: Tensor, weights: Tensor | None = None) -> None:
        """Count one more use of each of these rows, in the pool and where it is held."""
        ones = torch.ones_like(rows) if weights is None else (weights > 0).long()
        self._uses.index_add_(0, rows, ones)
        for shard, where in self.parts(rows):
            if len(where):
                weighed = None if weights is None else weights[where]
                shard.buffer.use(self._row_of[rows[where]], weighed)

    def parts(self, positions: Tensor) -> list[tuple[Shard, Tensor]]:
        """Return, for each shard here, which of these positions are its own."""
        shards = self._shard_of[positions]
        return [(shard, (shards == shard.number).nonzero()[:, 0]) for shard in self.own]

    @property
    def dtype(self) -> torch.dtype:
        """Type of the inputs."""
        return self._blank.dtype

    def inputs(self, shard: Shard, positions: Tensor) -> Tensor:
        """Return the inputs of rows of a shard of this rank."""
        return shard.inputs(self._row_of[positions])

    def ask(self, positions: Tensor, look: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """Return what `look` computes on the rank of each row, for all positions.

        `look` is called with inputs and with their places among the positions, once for each
        shard, so that no number depends on which shards are on one rank.
        """
        seen = [
            look(self.inputs(shard, positions[where]), where)
            for shard, where in self.parts(positions)
            if len(where)
        ]
        shards = self._shard_of[positions]
        order = shards.argsort(stable=True)
        # A rank without any of these rows must know the shape of an answer all the same.
        mine = torch.cat(seen) if seen else look(self._blank[: len(order)], order[:1])[:0]
        if not self.apart and self.ranks.size > 1:
            counts = self._rank_of[shards].bincount(minlength=self.ranks.size).tolist()
            padded = mine.new_zeros(max(counts), *mine.shape[1:])
            padded[: len(mine)] = mine
            everyone = self.ranks.gather("views", padded)
            mine = torch.cat([part[:count] for part, count in zip(everyone, counts, strict=True)])
        answer = torch.empty_like(mine)
        answer[order] = mine
        return answer

    def state_dict(self) -> dict[str, Any]:
        """Return what was agreed in the last meeting."""
        return {
            "quotas": self._quotas,
            "awaited": self._awaited,
            "counts": [self.held, self.seen, self.skipped],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self._quotas, self._awaited = list(state["quotas"]), list(state["awaited"])
        self.held, self.seen, self.skipped = state["counts"]

    def _write(
        self, place: Tensor, shard: Shard, alive: bool, chain: int, watched: bool, most: int
    ) -> None:
        """Write the record of a shard; predictions that are written are not sent again."""
        sent, shard.unsent = shard.unsent.split(
            [few := self._awaited[shard.number], len(shard.unsent) - few]
        )
        held = len(shard.buffer)
        shape, kind = [], 0
        if held:
            inputs = shard.buffer.pool().inputs
            shape, kind = list(inputs.shape[1:]), KINDS.index(inputs.dtype)
        header = Header(
            alive,
            chain,
            held,
            shard.validator.seen,
            shard.validator.rejects.total,
            len(shard.drawn),
            shard.agreeing,
            len(shard.unsent) + watched * len(shard.arrived),
            kind,
        )
        sides = shape + [-1] * (SIDES - len(shape))
        place[:AT_CLASSES] = torch.tensor([*header, *sides])
        first = self._fixed
        place[AT_CLASSES:first] = shard.compared.flatten()
        shard.agreeing = 0
        shard.compared.zero_()
        drawn = place[first : first + COLUMNS * most].view(COLUMNS, most)
        drawn[:, : len(shard.drawn)] = columns_of(shard)
        place[first + COLUMNS * most :][: sent.numel()] = sent.flatten()

    def _read(self, records: Tensor, most: int) -> Samples:
        """Return the pool that the records of all shards describe."""
        first = self._fixed
        numbers = records[:, :AT_CLASSES].tolist()
        headers = [Header(*row[:-SIDES]) for row in numbers]
        if len({header.chain for header in headers}) > 1:
            raise RanksDifferError(
                "Ranks have picked different rows: do they run on different processors or versions?"
            )
        self.apart = False
        self.alive = any(header.alive for header in headers)
        for name in ("held", "seen", "skipped"):
            setattr(self, name, sum(getattr(header, name) for header in headers))
        arrived, chosen = records[:, AT_CLASSES:first].sum(dim=0).view(2, self.classes)
        self.compared = None
        if predicted := int(arrived.sum()):
            share = sum(header.agreeing for header in headers) / predicted
            self.compared = Compared(torch.tensor(share, device=records.device), arrived, chosen)
        for row, header in zip(numbers, headers, strict=True):
            if header.held:
                shape = [side for side in row[-SIDES:] if side >= 0]
                self._blank = torch.zeros(1, *shape, dtype=KINDS[header.kind]).to(records.device)
        self._read_predictions(records[:, first + COLUMNS * most :])
        self._awaited = [header.unsent for header in headers]
        self._quotas = share_out(self.size, [header.held for header in headers])
        counts = [header.drawn for header in headers]
        self._locate(list(range(self.shards)), counts)
        columns = records[:, first : first + COLUMNS * most].view(-1, COLUMNS, most)
        return self._samples([part[:, :count] for part, count in zip(columns, counts, strict=True)])

    def _samples(self, columns: list[Tensor]) -> Samples:
        """Return rows of these columns, with tickets for inputs."""
        labels, ids, self._uses, clean, groups = torch.cat(columns, dim=1).unbind()
        tickets = torch.arange(len(labels), device=labels.device)[:, None]
        known, grouped = bool((clean >= 0).all()), bool((groups != UNKNOWN).all())
        return Samples(
            tickets,
            labels,
            ids,
            self._uses,
            clean.bool() if known else None,
            groups if grouped else None,
        )

    def _read_predictions(self, sent: Tensor) -> None:
        """Read the predictions of arriving rows, for the tracker."""
        self.predictions = None
        if any(self._awaited):
            rows = zip(sent, self._awaited, strict=True)
            read = torch.cat([part.view(-1, 3)[:count] for part, count in rows])
            self.predictions = (read[:, 0].contiguous().view(torch.double), read[:, 1:])

    def _locate(self, shards: Sequence[int], counts: Sequence[int]) -> None:
        """Note the shard of every position, and its row in the buffer where that is here."""
        device = self.ranks.device
        numbers, repeats = torch.tensor(shards, dtype=torch.long), torch.tensor(counts).long()
        self._shard_of = numbers.repeat_interleave(repeats).to(device)
        self._row_of = torch.full_like(self._shard_of, -1)
        for shard in self.own:
            self._row_of[self._shard_of == shard.number] = shard.drawn


def owners(shards: int, ranks: int) -> Tensor:
    """Return the rank of each shard: runs of shards, as even as can be, the first ranks the most.

    >>> owners(5, 2).tolist()
    [0, 0, 0, 1, 1]
    """
    each = torch.tensor([(shards + ranks - 1 - rank) // ranks for rank in range(ranks)])
    return torch.arange(ranks).repeat_interleave(each)


def share_out(size: int, held: Sequence[int]) -> list[int]:
    """Return how many rows each shard draws, by how many it holds; an empty one may draw some.

    >>> share_out(100, [30, 68])
    [31, 69]
    """
    total = sum(held) + len(held)
    return [max(1, size * (rows + 1) // total) for rows in held]


def columns_of(shard: Shard) -> Tensor:
    """Return what crosses of the rows that a shard drew, (columns, rows)."""
    if not len(shard.drawn):
        return torch.zeros(COLUMNS, 0, dtype=torch.long, device=shard.drawn.device)
    held, drawn = shard.buffer.pool(), shard.drawn
    unknown = torch.full_like(drawn, UNKNOWN)
    optional = (
        unknown if part is None else part[drawn].long() for part in (held.clean, held.groups)
    )
    return torch.stack([held.labels[drawn], held.ids[drawn], held.uses[drawn], *optional])


def concat_picks(found: list[Picks], none: Tensor) -> Picks:
    """Return the picks of several shards as one."""
    if not found:
        return Picks(none[:0])
    weights = targets = None
    if any(picks.weights is not None for picks in found):
        ones = none.new_ones(max(map(len, found)), dtype=torch.float)
        weights = torch.cat([ones[: len(p)] if p.weights is None else p.weights for p in found])
    if found[0].targets is not None:
        targets = torch.cat([picks.targets for picks in found if picks.targets is not None])
    return Picks(torch.cat([picks.rows for picks in found]), weights, targets)
