"""Reviewing labels: suspects, their neighbours, the review queue, corrections."""

from tamis.review.audit import LiveAudit
from tamis.review.corrections import Corrections
from tamis.review.files import write_review_files
from tamis.review.live import LiveSuspects
from tamis.review.neighbours import Neighbour, NeighbourIndex, find_neighbours, write_neighbours
from tamis.review.previews import (
    encode_png,
    preview_columns,
    preview_image,
    preview_text,
    previewer,
)
from tamis.review.queue import ReviewQueue
from tamis.review.records import HeldRecords, TableRows
from tamis.review.scorer import LabelScorer
from tamis.review.suspects import LabelCheck, Rows, check_labels, find_suspects

__all__ = [
    "Corrections",
    "HeldRecords",
    "LabelCheck",
    "LabelScorer",
    "LiveAudit",
    "LiveSuspects",
    "Neighbour",
    "NeighbourIndex",
    "ReviewQueue",
    "Rows",
    "TableRows",
    "check_labels",
    "encode_png",
    "find_neighbours",
    "find_suspects",
    "preview_columns",
    "preview_image",
    "preview_text",
    "previewer",
    "write_neighbours",
    "write_review_files",
]
