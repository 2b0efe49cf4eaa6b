"""The mutants of a module: one small change of its syntax each, in place, comments kept.

Left alone: strings and messages, annotations, decorators, `assert`, `__repr__`, logging, and what
would only be a type error (adding or joining literals of strings, lists and dicts).
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

COMPARISONS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.In: ("in", "not in"),
    ast.NotIn: (r"not\s+in", "in"),
    ast.Is: ("is", "is not"),
    ast.IsNot: (r"is\s+not", "is"),
}
ARITHMETIC: dict[type[ast.AST], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "*"),
    ast.Pow: ("**", "*"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.MatMult: ("@", "*"),
}
OPERATORS = ("comparison", "constant", "arithmetic", "condition", "statement")
QUIET = {"warn", "debug", "info", "warning", "exception", "isinstance", "issubclass", "TypeVar"}
"""Calls whose arguments are messages or types."""
LITERALS = ast.JoinedStr | ast.List | ast.Tuple | ast.Dict | ast.ListComp | ast.DictComp


@dataclass(frozen=True)
class Mutant:
    """One change of one file; offsets are bytes, the line is as it was."""

    file: str
    line: int
    scope: str
    operator: str
    code: str
    change: str
    nth: int
    start: int
    end: int
    new: str

    @property
    def key(self) -> str:
        """The mutant's name, which stays where lines are added elsewhere in the file."""
        return f"{self.file}|{self.scope}|{self.operator}|{self.code}|{self.change}|{self.nth}"

    def apply(self, text: bytes) -> bytes:
        """Return the file's text with the change."""
        return text[: self.start] + self.new.encode() + text[self.end :]


def mutants_of(path: Path, name: str) -> list[Mutant]:
    """Return all mutants of a module."""
    finder = _Finder(name, path.read_bytes())
    finder.visit(ast.parse(finder.text))
    return finder.found


def parses(mutant: Mutant, path: Path) -> bool:
    """Whether a module with the mutant is still Python."""
    try:
        ast.parse(mutant.apply(path.read_bytes()))
    except SyntaxError:
        return False
    return True


class _Finder(ast.NodeVisitor):
    def __init__(self, name: str, text: bytes) -> None:
        self.name, self.text = name, text
        self.found: list[Mutant] = []
        self._scopes: list[str] = []
        self._bound: list[set[str]] = [set()]
        self._seen: Counter[tuple[str, ...]] = Counter()
        lines = text.splitlines(keepends=True)
        self._lines = [line.decode().strip() for line in lines]
        self._starts = [0]
        for line in lines:
            self._starts.append(self._starts[-1] + len(line))

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if node.name == "__repr__":
            return
        given = node.args
        names = {one.arg for one in [*given.posonlyargs, *given.args, *given.kwonlyargs]}
        for default in [*given.defaults, *filter(None, given.kw_defaults)]:
            self.visit(default)
        self._inside(node.name, names, node.body)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815  ast names its methods so

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._inside(node.name, set(), node.body)

    def _inside(self, name: str, bound: set[str], body: list[ast.stmt]) -> None:
        self._scopes.append(name)
        self._bound.append(bound)
        for statement in body:
            self.visit(statement)
        self._bound.pop()
        self._scopes.pop()

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value:
            self.visit(node.value)

    def visit_Assert(self, node: ast.Assert) -> None: ...

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None: ...

    def visit_Raise(self, node: ast.Raise) -> None:
        self._drop(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if name in QUIET:
            return
        if name == "zip":  # strict= is an assertion
            node.keywords = []
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        value = node.value.value if isinstance(node.value, ast.Await) else node.value
        if isinstance(value, ast.Call) and getattr(value.func, "attr", "") not in QUIET - {"warn"}:
            self._drop(node)
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        first = node.targets[0]
        if isinstance(first, ast.Name):
            if self._scopes and first.id in self._bound[-1]:
                self._drop(node)
            self._bound[-1].add(first.id)
        elif isinstance(first, ast.Attribute | ast.Subscript) and "__init__" not in self._scopes:
            self._drop(node)
        if self._scopes or not isinstance(node.value, ast.BinOp | ast.Subscript):  # no aliases
            self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._drop(node)
        self.generic_visit(node)

    def visit_Delete(self, node: ast.Delete) -> None:
        self._drop(node)

    def visit_Continue(self, node: ast.Continue) -> None:
        self._drop(node)

    def visit_Break(self, node: ast.Break) -> None:
        self._drop(node)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is None:
            self._drop(node)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        sides = [node.left, *node.comparators]
        for left, right, sign in zip(sides, node.comparators, node.ops, strict=False):
            self._between("comparison", left, right, *COMPARISONS[type(sign)])
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        plain = not any(
            isinstance(side, LITERALS) or isinstance(getattr(side, "value", None), str)
            for side in (node.left, node.right)
        )
        if plain and type(node.op) in ARITHMETIC:
            self._between("arithmetic", node.left, node.right, *ARITHMETIC[type(node.op)])
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._between("condition", left, right, old, new)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            start = self._span(node)[0]
            self._add(node, "condition", "not dropped", start, start + len("not"), "")
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        if getattr(node.test, "id", "") != "TYPE_CHECKING":
            self._negate(node.test)
            self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self._negate(test)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            new = str(not value)
        elif isinstance(value, int):
            new = str(value + 1)
        elif isinstance(value, float):
            new = repr(2 * value or 1.0)
        else:
            return
        start, end = self._span(node)
        old = self.text[start:end].decode()
        self._add(node, "constant", f"{old} to {new}", start, end, new)

    def _negate(self, test: ast.expr) -> None:
        """Negate a condition, unless dropping `not` or flipping a comparison does that."""
        flipped = isinstance(test, ast.Compare) and not isinstance(
            test.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE
        )
        if flipped or isinstance(test, ast.UnaryOp | ast.Constant):
            return
        start, end = self._span(test)
        old = self.text[start:end].decode()
        self._add(test, "condition", "negated", start, end, f"(not ({old}))")

    def _drop(self, node: ast.stmt) -> None:
        start, end = self._span(node)
        self._add(node, "statement", "dropped", start, end, "pass")

    def _between(self, operator: str, left: ast.expr, right: ast.expr, old: str, new: str) -> None:
        """Replace the sign that stands between two expressions."""
        start, end = self._span(left)[1], self._span(right)[0]
        pattern = old if old[0].isalpha() else re.escape(old)
        found = re.search(
            pattern, re.sub(r"#.*", lambda m: " " * len(m[0]), self._text(start, end))
        )
        if found:
            change = f"{found[0]} to {new}"
            self._add(right, operator, change, start + found.start(), start + found.end(), new)

    def _add(
        self, node: ast.expr | ast.stmt, operator: str, change: str, start: int, end: int, new: str
    ) -> None:
        scope, code = ".".join(self._scopes), self._lines[node.lineno - 1]
        same = (scope, operator, code, change)
        self._seen[same] += 1
        self.found.append(
            Mutant(
                self.name, node.lineno, scope, operator, code, change,
                self._seen[same], start, end, new,
            )
        )  # fmt: skip

    def _text(self, start: int, end: int) -> str:
        return self.text[start:end].decode("latin-1")  # one character a byte

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """Return where a node begins and ends, in bytes."""
        end_line, end = node.end_lineno or node.lineno, node.end_col_offset or 0
        first, last = self._starts[node.lineno - 1], self._starts[end_line - 1]
        return first + node.col_offset, last + end
