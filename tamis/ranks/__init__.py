"""Training on many processes at once: every rank has its shards, all pick from one pool."""

from tamis.ranks.group import RankLost, Ranks, RanksDiffer
from tamis.ranks.saving import RankCheckpoints
from tamis.ranks.trainer import RankTrainer

__all__ = ["RankCheckpoints", "RankLost", "RankTrainer", "Ranks", "RanksDiffer"]
