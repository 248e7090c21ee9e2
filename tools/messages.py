"""Prints each message that a user can cause, with placeholders for values: `python tools/messages.py`."""

import ast
import re
from pathlib import Path

LIBRARY = Path(__file__).resolve().parent.parent / "workflow" / "tilewave"
KINDS = re.compile(r"(UserError|KernelRefused|NoKernel|NoYaml)|\w+\.(because|unknown)")


def text(node: ast.expr, texts: dict[str, str]) -> str:
    """Return an expression as a message shows it; ``texts`` are those of names."""
    match node:
        case ast.Constant(value=value):
            return "" if value is None else str(value)
        case ast.JoinedStr(values=parts):
            return "".join(text(part, texts) for part in parts)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return ", ".join(text(part, texts) for part in parts)
        case ast.FormattedValue(value=inner) | ast.Call(args=[inner, *_]) | ast.Call(func=inner):
            return text(inner, texts)
        case ast.BinOp(left=left, right=ast.Constant(value=int())):
            return text(left, texts)
        case ast.BinOp(left=left, right=right):
            return text(left, texts) + text(right, texts)
        case ast.Name(id=name):
            return texts.get(name, f"{{{name}}}")
    return f"{{{getattr(node, 'attr', 'value')}}}"


def message(name: str | None, where: str, key: str, *rest: str) -> tuple[str, str]:
    """Return problem and remedy of a call that makes an error, from its method and arguments."""
    before = "" if where == "{HERE}" else f"{where}: "
    if name == "because":
        return before + key, rest[0]
    if name == "unknown":
        return f"{before}{': '.join([*rest[2:], 'unknown'])} {key} {rest[0]}", f"Allowed: {rest[1]}"
    problem, remedy = (rest[0], "Allowed: ") if rest[0] else ("missing", "Needed: ")
    return f"{before}{key} is {problem}", rest[1] and remedy + rest[1]


def messages(file: Path) -> list[tuple[str, str]]:
    """Return problem and remedy of each message in a file, with the texts of local names filled in."""
    listed, tree = [], ast.parse(file.read_text(encoding="utf-8"))
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        texts: dict[str, str] = {}
        nodes = [node for node in ast.walk(function) if isinstance(node, ast.Assign | ast.Call)]
        for node in sorted(nodes, key=lambda node: (node.lineno, node.col_offset)):
            if isinstance(node, ast.Assign):
                if isinstance(node.value, ast.Constant | ast.JoinedStr):
                    texts[ast.unparse(node.targets[0])] = text(node.value, texts)
            elif len(node.args) > 2 and (match := KINDS.fullmatch(ast.unparse(node.func))):
                listed.append(message(match[2], *(text(part, texts) for part in node.args)))
    return listed


if __name__ == "__main__":
    for path in sorted(LIBRARY.rglob("*.py")):
        for pair in messages(path):
            print(f"{path.relative_to(LIBRARY)}: {'. '.join(pair)}")
