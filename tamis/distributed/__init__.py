"""Training on many processes at once: every rank has its shards, all pick from one pool."""

from tamis.distributed.group import RankLostError, Ranks, RanksDifferError
from tamis.distributed.saving import RankCheckpoints
from tamis.distributed.trainer import RankTrainer

__all__ = ["RankCheckpoints", "RankLostError", "RankTrainer", "Ranks", "RanksDifferError"]
