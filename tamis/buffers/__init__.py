"""Where samples are held: preallocated, bounded."""

from tamis.buffers.balanced import BalancedReservoir
from tamis.buffers.growing import Growing
from tamis.buffers.reservoir import Reservoir
from tamis.buffers.sliding import Sliding
from tamis.buffers.store import Buffer

__all__ = ["BalancedReservoir", "Buffer", "Growing", "Reservoir", "Sliding"]
