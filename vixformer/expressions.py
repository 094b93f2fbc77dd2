"""Words with options, such as `performer(features=64)`, read from Python's syntax tree and never evaluated."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from vixformer.jsonfile import Values


def parsed(text: str) -> ast.expr | None:
    """The tree of an expression; None where it is none."""
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def options_of(node: ast.Call, word: str, order: Sequence[str] = ()) -> Values:
    """The key=value options of a call, of which those in `order` may also stand in front as values alone."""
    if len(node.args) > len(order) or any(keyword.arg is None for keyword in node.keywords):
        raise ValueError(f"options of {word} are written key=value, not {ast.unparse(node)}")
    options: Values = {}
    for name, value in (*zip(order, node.args, strict=False), *((str(k.arg), k.value) for k in node.keywords)):
        if name in options:
            raise ValueError(f"{word}: {name} is given twice")
        options[name] = literal(value, f"{word}: {name}")
    return options


def literal(node: ast.expr, where: str) -> int | float | str | bool | None:
    """A number, a word, None, True or False."""
    if isinstance(node, ast.Name):
        return {"none": None, "true": True, "false": False}.get(node.id, node.id)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = literal(node.operand, where)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return -value
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float | None):
        return node.value
    raise ValueError(f"{where} must be a number, a word, none, true or false, not {ast.unparse(node)}")


def written(value: object) -> str:
    """As `literal` reads it."""
    return repr(value) if is_number(value) else {None: "none", True: "true", False: "false"}.get(value, str(value))


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
