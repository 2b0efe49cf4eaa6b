"""A person goes through suspects: decisions, the queue, and corrections for a running trainer."""

from tamis.review.corrections import Corrections
from tamis.review.decisions import Decision, Decisions, Word
from tamis.review.keeper import Keeper, about_table
from tamis.review.lookout import Lookout
from tamis.review.queue import Queue

__all__ = [
    "Corrections",
    "Decision",
    "Decisions",
    "Keeper",
    "Lookout",
    "Queue",
    "Word",
    "about_table",
]
