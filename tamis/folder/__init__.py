"""What a run leaves in its folder: one small file for each thing, readable while it is written."""

from tamis.folder.about import About, read_about, write_about
from tamis.folder.history import History
from tamis.folder.leave import leave_suspects
from tamis.folder.lines import Tail, add_line, read_lines
from tamis.folder.names import FILES, Names
from tamis.folder.neighbours import Neighbourhood, find_neighbours, write_neighbours
from tamis.folder.pictures import encode_png, show_columns, show_image, show_text, shower
from tamis.folder.shelf import Shelf
from tamis.folder.shown import Shown, write_shown
from tamis.folder.tracked import Noted, Point, Told, Tracking

__all__ = [
    "FILES",
    "About",
    "History",
    "Names",
    "Neighbourhood",
    "Noted",
    "Point",
    "Shelf",
    "Shown",
    "Tail",
    "Told",
    "Tracking",
    "add_line",
    "encode_png",
    "find_neighbours",
    "leave_suspects",
    "read_about",
    "read_lines",
    "show_columns",
    "show_image",
    "show_text",
    "shower",
    "write_about",
    "write_neighbours",
    "write_shown",
]
