"""Digests of what decides a kernel's results: its text, headers, cubins, and a user-defined operation."""

import ast
import contextlib
import glob
import hashlib
import re
from pathlib import PurePosixPath

from tilewave.basics import files
from tilewave.basics.errors import KernelRefused
from tilewave.kernel import operations
from tilewave.kernel.front_matter import Kernel, load_kernel


def cubins(kernel: Kernel) -> dict[str, str]:
    """Return the SHA-256 of each file that may be the code of a variant, by name."""
    if kernel.front.cubin is None:
        return {}
    folder, digests = kernel.path.parent, dict[str, str]()
    parts = PurePosixPath(kernel.front.cubin).parts
    if not parts or parts[0] == "/" or ".." in parts or "\0" in kernel.front.cubin:
        return digests  # refused where it is read
    pattern = re.sub(r"(?:\{[^{}]*\})+", "*", glob.escape(kernel.front.cubin))
    for path in sorted(folder.glob(pattern)):
        with contextlib.suppress(KernelRefused):  # the variant whose code it is reports it
            if files.lies_in(path, [folder]):
                digest = hashlib.sha256(files.content(path, files.MOST_DATA)).hexdigest()
                digests[path.relative_to(folder).as_posix()] = digest
    return digests


def source_digest(kernel: Kernel) -> str:
    """Return the SHA-256 of the file's text, of its `headers` and of its cubins."""
    digest = hashlib.sha256(kernel.text.encode())
    for name, text in kernel.headers.items():
        digest.update(f"\0{name}\0{text}".encode())
    for name, code in cubins(kernel).items():
        digest.update(f"\0{name}\0{code}".encode())
    return digest.hexdigest()


def operation_code(name: str) -> str:
    """Return the digest of a user-defined operation and of its reference kernel; empty for Tilewave's."""
    file = operations.kernel_of(name)
    more = f"-{source_digest(load_kernel(file))[:16]}" if file else ""
    return operations.MODULES.code(name) + more


def host_code(kernel: Kernel) -> str:
    """Return the digest of a host kernel without comments, unparsed: dumps of trees differ between Pythons."""
    if kernel.path.suffix != ".py":
        return kernel.provider  # a vendor's product: there is no source
    try:
        tree = ast.parse(kernel.text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # its cases say so when they run
        return hashlib.sha256(kernel.text.encode()).hexdigest()
    body = tree.body[1:] if ast.get_docstring(tree) is not None else tree.body
    text = "\n".join(ast.unparse(node) for node in body)
    return hashlib.sha256(text.encode()).hexdigest()
