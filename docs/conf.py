"""How the site is built: Sphinx over the Markdown pages of this folder, with no network."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx import addnodes
from sphinx.application import Sphinx

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

import tamis  # noqa: E402
from tamis.cli.main import build_parser  # noqa: E402
from tamis.cli.parser import Parser  # noqa: E402

project = "tamis"
release = version = tamis.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["_build"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"tamis {release}"
html_copy_source = False
html_show_copyright = False

autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 90

nitpicky = True
# Names of other libraries are not linked: that takes a network.
nitpick_ignore_regex = [("py:.*", r"(?!tamis\.).*")]


class Commands(Directive):
    """Show the help of every command of tamis as the program prints it."""

    def run(self) -> list[nodes.Node]:
        """Make a section for each command, in the order of `tamis --help`."""
        os.environ["COLUMNS"] = "90"  # argparse folds lines to the terminal
        return [section(parser) for parser in build_parser().commands.values()]


def section(parser: Parser) -> nodes.section:
    """Return a section with a command's help, and one within it for each command of a group."""
    text, title = parser.format_help(), parser.prog
    help_text = nodes.literal_block(text, text, language="text")
    inner = [section(each) for each in parser.commands.values()]
    title_node = nodes.title(text=title)
    return nodes.section("", title_node, help_text, *inner, ids=[nodes.make_id(title)])


def follow_links(app: Sphinx, document: nodes.document) -> None:
    """Lead links that a code host follows and a site does not: to a folder, or out of this one.

    A folder is its index, or without one nothing. A page out of this folder is its namesake here.
    """
    for link in list(document.findall(addnodes.pending_xref)):
        if link["reftype"] != "myst":
            continue
        place = (HERE / app.env.docname).parent / link["reftarget"]
        if (place / "index.md").exists():
            lead(link, (place / "index").resolve().relative_to(HERE).as_posix())
        elif place.is_dir():
            link.replace_self(link.children)
        elif Path(link["reftarget"]).is_absolute():
            lead(link, place.name.lower())


def lead(link: nodes.Element, page: str) -> None:
    """Make a link one to a page of the site."""
    link["refdomain"], link["reftarget"], link["reftargetid"] = "doc", page, None


def read_markdown(
    app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]
) -> None:
    """Turn a docstring, which is written as Markdown, into what Sphinx reads."""
    if lines and lines[0].startswith("Alias for field number"):  # Python's own docstrings
        lines.clear()
    list_parameters(lines)
    text = re.sub(r"\n\n(?=    )", "\n\n::\n\n", "\n".join(lines))
    lines[:] = [
        line if line.startswith((" ", ">>>")) else escape(line) for line in text.split("\n")
    ]


def list_parameters(lines: list[str]) -> None:
    """Turn the section `Parameters`, one `name: description` a line, into a list of fields."""
    if "Parameters" in lines:
        first = lines.index("Parameters")
        last = lines.index("", first) if "" in lines[first:] else len(lines)
        described = [
            line if line.startswith(" ") else f":param {line}" for line in lines[first:last]
        ]
        lines[first:last] = described[2:]  # without the heading and its underline


def escape(line: str) -> str:
    """Mark code by two backticks, and take signs outside of code for themselves."""
    parts = line.split("`")
    parts[::2] = [re.sub(r"([*|\\]|_\b)", r"\\\1", part) for part in parts[::2]]
    return "``".join(parts)


def setup(app: Sphinx) -> None:
    """Register the directive and the two steps with Sphinx."""
    app.add_directive("tamis-commands", Commands)
    app.connect("doctree-read", follow_links)
    app.connect("autodoc-process-docstring", read_markdown)
