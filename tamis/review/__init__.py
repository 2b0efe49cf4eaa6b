"""Reviewing labels: suspects, their neighbours, the review queue, corrections."""

from tamis.review.corrections import Corrections
from tamis.review.leave import leave_suspects
from tamis.review.live import Lookout
from tamis.review.neighbours import Neighbourhood, find_neighbours, write_neighbours
from tamis.review.queue import Queue
from tamis.review.suspects import Suspect, find_suspects, write_suspects
from tamis.review.thumbnails import encode_png, show_columns, show_image, show_text, shower

__all__ = [
    "Corrections",
    "Lookout",
    "Neighbourhood",
    "Queue",
    "Suspect",
    "encode_png",
    "find_neighbours",
    "find_suspects",
    "leave_suspects",
    "show_columns",
    "show_image",
    "show_text",
    "shower",
    "write_neighbours",
    "write_suspects",
]
