"""Which tests are nearest to a module: those of its name, of its room, and those that import it."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

LEFT_OUT = ("tests/test_house.py", "tests/test_wheel.py")
"""They read the text of the library, or build it: a mutant that breaks a limit is not noticed."""


def nearest(root: Path, module: str) -> tuple[list[str], list[str]]:
    """Return the test files to run first, and those to run next; each of them once."""
    path = Path(module)
    room = "/".join(("tests", *path.parts[1:2])) + "/"
    public = _defined(root / path) | {".".join(path.with_suffix("").parts)}
    stem = path.stem if path.stem != "__init__" else path.parent.name
    files = others(root, [])
    named = [name for name in files if name.startswith(room) and stem in Path(name).stem]
    importing = [name for name in files if public & _imported(root, name)]
    near = [name for name in importing if name.startswith(room)]
    rest = [name for name in files if name.startswith(room)]
    first = _once([*named, *near, *rest])
    then = [name for name in importing if name not in first]
    return first, [*then, module]  # its examples import it once more: after all others


def others(root: Path, names: list[str]) -> list[str]:
    """Return all files of tests but these."""
    files = sorted(str(path.relative_to(root)) for path in (root / "tests").rglob("test_*.py"))
    return [name for name in files if name not in (*LEFT_OUT, *names)]


def _once(names: list[str]) -> list[str]:
    return list(dict.fromkeys(names))


@cache
def _defined(path: Path) -> frozenset[str]:
    """Return the public names of a module."""
    body = ast.parse(path.read_bytes()).body
    kinds = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    names = {node.name for node in body if isinstance(node, kinds)}
    for node in body:
        if isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return frozenset(name for name in names if not name.startswith("_"))


@cache
def _imported(root: Path, name: str) -> frozenset[str]:
    """Return what a test imports of tamis, names and modules, also by way of what tests share."""
    found: set[str] = set()
    for node in ast.walk(ast.parse((root / name).read_bytes())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.startswith("tamis")}
        elif isinstance(node, ast.ImportFrom) and node.module:
            if node.module.startswith("tamis"):
                found.add(node.module)
                found |= {alias.name for alias in node.names}
                found |= {f"{node.module}.{alias.name}" for alias in node.names}
            elif node.module.startswith("tests."):
                shared = node.module.replace(".", "/") + ".py"
                if (root / shared).exists():
                    found |= _imported(root, shared)
    return frozenset(found)
