"""The folder of a run, as files: layout, metadata, JSON lines, history, suspects, decisions."""

from tamis.runs.decisions import Decision, Decisions, Word
from tamis.runs.estimates import Noted, Point, Told, Tracking
from tamis.runs.history import History
from tamis.runs.json_lines import Tail, add_line, read_lines
from tamis.runs.layout import FILES, Names
from tamis.runs.metadata import About, read_about, write_about
from tamis.runs.shown import Shown, write_shown
from tamis.runs.suspect_index import Shelf

__all__ = [
    "FILES",
    "About",
    "Decision",
    "Decisions",
    "History",
    "Names",
    "Noted",
    "Point",
    "Shelf",
    "Shown",
    "Tail",
    "Told",
    "Tracking",
    "Word",
    "add_line",
    "read_about",
    "read_lines",
    "write_about",
    "write_shown",
]
