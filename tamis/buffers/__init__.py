"""Bounded memories of samples, allocated once."""

from tamis.buffers.balanced import BalancedReservoir
from tamis.buffers.growing import Growing
from tamis.buffers.mapped import DiskSpaceError
from tamis.buffers.puridiver import PuriDivER
from tamis.buffers.reservoir import Reservoir
from tamis.buffers.sliding import Sliding
from tamis.buffers.store import Buffer
from tamis.buffers.waiting import WaitingRoom

BUFFERS = (Growing, Sliding, Reservoir, BalancedReservoir, PuriDivER)

__all__ = [
    "BUFFERS",
    "BalancedReservoir",
    "Buffer",
    "DiskSpaceError",
    "Growing",
    "PuriDivER",
    "Reservoir",
    "Sliding",
    "WaitingRoom",
]
