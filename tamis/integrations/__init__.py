"""Selection inside the tools that people already train with; each file needs that tool alone."""

from tamis.integrations.columns import Columns
from tamis.integrations.frames import find_suspects
from tamis.integrations.loader import SieveLoader, SieveSampler
from tamis.integrations.sieve import Sieve

__all__ = ["Columns", "Sieve", "SieveLoader", "SieveSampler", "find_suspects"]
