"""Reviewing labels: suspects, their neighbours, the review queue, corrections."""

from tamis.review.corrections import Corrections
from tamis.review.files import write_review_files
from tamis.review.live import LiveSuspects
from tamis.review.neighbours import Neighbourhood, find_neighbours, write_neighbours
from tamis.review.previews import (
    encode_png,
    preview_columns,
    preview_image,
    preview_text,
    previewer,
)
from tamis.review.queue import Queue
from tamis.review.suspects import Suspect, find_suspects, write_suspects

__all__ = [
    "Corrections",
    "LiveSuspects",
    "Neighbourhood",
    "Queue",
    "Suspect",
    "encode_png",
    "find_neighbours",
    "find_suspects",
    "preview_columns",
    "preview_image",
    "preview_text",
    "previewer",
    "write_neighbours",
    "write_review_files",
    "write_suspects",
]
