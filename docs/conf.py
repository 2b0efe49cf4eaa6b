"""How the site is built: Sphinx over the Markdown pages of this folder, with no network."""

from __future__ import annotations

import logging
import os
import re
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.utils.math import latex2mathml
from nbclient import NotebookClient
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
# Notebooks run the program `tamis` of the environment that builds the site, and this package.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
os.environ |= {"PYTHONPATH": str(HERE.parent), "OMP_NUM_THREADS": "1"}
os.environ |= {"TTY_COMPATIBLE": "0", "COLUMNS": "100"}  # rich, in a kernel: no colours, no bars
# Kernels that do not warn about their sockets on the terminal.
kernels = HERE / "_build" / "ipython" / "profile_default"
kernels.mkdir(parents=True, exist_ok=True)
(kernels / "ipython_kernel_config.py").write_text('get_config().IPKernelApp.log_level = "ERROR"\n')
os.environ["IPYTHONDIR"] = str(kernels.parent)

import tamis  # noqa: E402
from tamis.cli.main import build_parser  # noqa: E402
from tamis.cli.parser import Parser  # noqa: E402

NotebookClient.coalesce_streams.default_value = True  # or lines are broken where a pipe was
logging.getLogger("traitlets").setLevel(logging.WARNING)  # it names each notebook that runs

project = "tamis"
release = version = tamis.__version__
extensions = ["myst_nb", "sphinx_design", "sphinx.ext.autodoc"]
exclude_patterns = ["_build", "jupyter_execute"]
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "dollarmath"]

nb_execution_mode = "cache"  # a notebook runs again where its own code has changed
nb_execution_cache_path = str(HERE / "_build" / "notebooks")
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_merge_streams = True

html_theme = "furo"
html_title = f"tamis {release}"
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_show_search_summary = False  # excerpts are fetched, which a browser refuses from disk

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


class Gallery(Directive):
    """Show a folder's pictures of pages, PAGE-SCHEME-WIDTH.png, in the reader's scheme."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Make a section for each page, its widest picture first; none without pictures."""
        pictures: dict[str, list[Path]] = {}
        for file in (HERE / self.arguments[0]).glob("*-*-*.png"):
            pictures.setdefault(file.stem.rsplit("-", 2)[0], []).append(file)
        return [page_section(name, files) for name, files in sorted(pictures.items())]


def page_section(page: str, files: list[Path]) -> nodes.section:
    """Return a section with the pictures of a page."""
    title = page.replace("-", " ").capitalize()
    made = nodes.section("", nodes.title(text=title), ids=[nodes.make_id(f"page-{page}")])
    for file in sorted(files, key=lambda file: -int(file.stem.rsplit("-", 1)[1])):
        scheme, width = file.stem.rsplit("-", 2)[1:]
        uri = Path(os.path.relpath(file, HERE)).as_posix()
        alt = f"{title}, {scheme}, {width} pixels wide"
        image = nodes.image(uri=uri, alt=alt, classes=[f"only-{scheme}", "screenshot"])
        made += nodes.paragraph("", "", image)
    return made


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
        target = Path(link["reftarget"])
        place = (HERE / app.env.docname).parent / target
        if link["reftype"] != "myst":
            continue
        if target.is_absolute():
            lead(link, target.name.lower())
        elif link["refdomain"] == "doc":  # the name of a page, found already
            continue
        elif (place / "index.md").exists():
            lead(link, (place / "index").resolve().relative_to(HERE).as_posix())
        elif place.is_dir():
            link.replace_self(link.children)


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


def write_formula(page: HTML5Translator, node: nodes.math) -> None:
    """Write a formula within a line as MathML, which browsers typeset by themselves."""
    page.body.append(latex2mathml.tex2mathml(node.astext()))
    raise nodes.SkipNode


def write_equation(page: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula on lines of its own as MathML."""
    formula = latex2mathml.tex2mathml(node.astext(), as_block=True)
    page.body.append(f'<div class="math" tabindex="0">{formula}</div>\n')
    raise nodes.SkipNode


def open_to_all(
    app: Sphinx, page: str, template: str, context: dict[str, Any], tree: object
) -> None:
    """Add what the theme lacks for people without a mouse: levels of headings, stops for Tab.

    Captions of the side bar get the level that their role requires. Code and tables that are wider
    than a phone can be reached by Tab, and so be scrolled by keys.
    """
    bar, body = context.get("furo_navigation_tree", ""), context.get("body", "")
    level = 'role="heading" aria-level="2"'
    context["furo_navigation_tree"] = bar.replace('role="heading"', level)
    for start in ("<pre", '<div class="table-wrapper'):
        body = body.replace(start, f'{start[:4]} tabindex="0"{start[4:]}')
    context["body"] = body


def setup(app: Sphinx) -> None:
    """Register the directive, the formulas and the two steps with Sphinx."""
    app.add_directive("tamis-commands", Commands)
    app.add_directive("gallery", Gallery)
    app.add_html_math_renderer("mathml", (write_formula, None), (write_equation, None))
    app.connect("doctree-read", follow_links)
    app.connect("html-page-context", open_to_all, priority=900)  # after the theme has made it
    app.connect("autodoc-process-docstring", read_markdown)
