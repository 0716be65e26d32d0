"""The mutants of a module: Cosmic Ray's operators, one occurrence each, on the parsed source."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

from cosmic_ray.ast import Visitor, get_ast
from cosmic_ray.mutating import MutationVisitor
from cosmic_ray.plugins import get_operator

PAIRS = (
    *("Eq_NotEq", "NotEq_Eq", "Lt_LtE", "Lt_GtE", "LtE_Lt", "LtE_Gt", "Gt_GtE", "Gt_LtE", "GtE_Gt", "GtE_Lt"),
    *("Is_IsNot", "IsNot_Is"),
)
"""Comparisons: each by its opposite, and by the one that differs from it at the boundary alone."""

BINARY = (
    *("Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul", "FloorDiv_Mul", "Mod_Mul", "Pow_Mul"),
    *("BitAnd_BitOr", "BitOr_BitAnd", "BitXor_BitAnd", "LShift_RShift", "RShift_LShift"),
)
"""Each by the one that is nearest: what would raise a TypeError at once tests nothing."""

OPERATORS = (
    *(f"core/ReplaceComparisonOperator_{pair}" for pair in PAIRS),
    *(f"core/ReplaceBinaryOperator_{pair}" for pair in BINARY),
    *("core/ReplaceUnaryOperator_Delete_Invert", "core/ReplaceUnaryOperator_Delete_Not"),
    *("core/ReplaceUnaryOperator_USub_UAdd", "core/AddNot", "core/NumberReplacer"),
    *("core/ReplaceTrueWithFalse", "core/ReplaceFalseWithTrue", "core/ReplaceAndWithOr", "core/ReplaceOrWithAnd"),
    *("core/ReplaceBreakWithContinue", "core/ReplaceContinueWithBreak", "core/ZeroIterationForLoop"),
)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one module.

    Attributes:
        path: of the module, below ``streaming``.
        operator: Cosmic Ray's name.
        occurrence: which of the places where the operator applies, from 0.
        line: in the source, from 1.
    """

    path: str
    operator: str
    occurrence: int
    line: int

    @property
    def name(self) -> str:
        """What the results name it by."""
        return f"{self.path}:{self.line} {self.operator.removeprefix('core/')} #{self.occurrence}"

    @property
    def module(self) -> str:
        """The dotted name of the module."""
        return module_of(self.path)

    def source(self, root: Path) -> str:
        """The module's text with the change."""
        changed: str | None = MutationVisitor.mutate_code(
            (root / self.path).read_text(), get_operator(self.operator)(), self.occurrence
        )
        if changed is None:
            raise ValueError(f"{self.name}: there is no such place")
        return changed


def module_of(path: str) -> str:
    """The dotted name of the module with a path below ``streaming``."""
    return path.removesuffix(".py").replace("/", ".")


class _Places(Visitor):
    """Collects the lines where an operator applies."""

    def __init__(self, operator: object) -> None:
        self.operator = operator
        self.lines: list[int] = []

    def visit(self, node):  # type: ignore[no-untyped-def]
        self.lines += [node.start_pos[0] for _ in self.operator.mutation_positions(node)]
        return node


def mutants(root: Path, path: str) -> list[Mutant]:
    """Every place of a module where an operator applies; some make no other program (`is_another_program`)."""
    tree = get_ast((root / path).read_text())
    found = []
    for name in OPERATORS:
        places = _Places(get_operator(name)())
        places.walk(tree)
        found += [Mutant(path, name, occurrence, line) for occurrence, line in enumerate(places.lines)]
    return found


def is_another_program(mutant: Mutant, root: Path) -> bool:
    """Whether a mutant changes more than what `_Bare` takes away."""
    try:
        changed = _program(mutant.source(root))
    except SyntaxError:
        return False
    return changed != _program((root / mutant.path).read_text())


ONE_ROW = ("partition", "broker")
"""What the program calls tables of exactly one row: there, the last row is the first."""

HASHES = ("_mix",)
"""Hash functions: which whole number one makes of a key says where the key is looked for first, never what is found."""


class _Bare(ast.NodeTransformer):
    """Takes annotations and decorators away: nothing reads the former, and the latter only make dataclasses.

    So too whether arguments are given by place or by name, and ``strict`` of ``zip``: what it zips is equally long.
    Counts rows of the tables that have just one from the start, and takes the numbers of hash functions away.
    """

    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        if _name(node.func) == "zip":
            node.keywords = []
        return node

    def visit_arguments(self, node: ast.arguments) -> ast.arguments:
        self.generic_visit(node)
        node.args = [*node.posonlyargs, *node.args, *node.kwonlyargs]
        node.defaults = [*node.defaults, *(default for default in node.kw_defaults if default is not None)]
        node.posonlyargs, node.kwonlyargs, node.kw_defaults = [], [], []
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.Subscript:
        self.generic_visit(node)
        column = node.value
        if isinstance(column, ast.Subscript) and _name(column.value) in ONE_ROW:
            index = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            if ast.unparse(index[0]) == "-1":
                first = ast.Constant(0)
                node.slice = ast.Tuple([first, *index[1:]], ast.Load()) if len(index) > 1 else first
        return node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.returns = None
        node.decorator_list = []
        if node.name in HASHES:
            _take_numbers_away(node)
        self.generic_visit(node)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        node.decorator_list = []
        self.generic_visit(node)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AnnAssign:
        node.annotation = ast.Constant(None)
        self.generic_visit(node)
        return node


def _take_numbers_away(node: ast.FunctionDef) -> None:
    """Numbers, signs and bit operators: with others in their place a whole number is made as well."""
    for part in ast.walk(node):
        if isinstance(part, ast.Constant):
            part.value = 0
        elif isinstance(part, ast.UnaryOp):
            part.op = ast.UAdd()
        elif isinstance(part, ast.BinOp) and isinstance(part.op, ast.BitAnd | ast.BitOr | ast.BitXor):
            part.op = ast.BitXor()


def _name(node: ast.expr) -> str:
    """The last part of a dotted name; empty for anything else."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _program(text: str) -> str:
    return ast.dump(_Bare().visit(ast.parse(text)))
