"""Stage compile: every variant of one kernel, for every architecture, from cache where possible."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tilewave.compiling import cubin, nvrtc, sass
from tilewave.kernels import Kernel, source_digest
from tilewave.records import model
from tilewave.records.recorded import Recorded
from tilewave.records.store import Store, write_atomically
from tilewave.variants import Variant

NO_SOURCE = {"cublaslt": "cublaslt"}
KEPT = (".cubin", ".sass")
"""What the store keeps of a compiled variant beside what is known of it."""


def host_code(kernel: Kernel) -> str:
    """Digest of a host kernel without comments and the docstring that holds front matter.

    Unparsed, because the tree's own dump differs between versions of Python.
    """
    if kernel.provider in NO_SOURCE:
        return NO_SOURCE[kernel.provider]
    tree = ast.parse(kernel.text)
    body = tree.body[1:] if ast.get_docstring(tree) is not None else tree.body
    text = "\n".join(ast.unparse(node) for node in body)
    return hashlib.sha256(text.encode()).hexdigest()


def _from_cache(store: Store, key: str) -> dict[str, Any] | None:
    try:
        path = store.blob("compiled", key, ".json")
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    whole = found["status"] != model.OK or all(
        store.blob("compiled", key, suffix).is_file() for suffix in KEPT
    )
    return found if whole else None


def _compile(variant: Variant, arch: str, store: Store, compiler: threading.Lock) -> dict[str, Any]:
    """Compile into the store under the content key, or take what is there."""
    kernel = variant.kernel
    arch = nvrtc.target_of(kernel, arch)
    key = nvrtc.cache_key(kernel, arch, variant.names)
    found = _from_cache(store, key)
    if found is not None:
        return found | {"cached": True}
    with compiler:
        done = nvrtc.compile_kernel(kernel, arch, variant.names)
    entry: dict[str, Any] = {
        "status": model.OK if done.cubin else model.FAILED_TO_COMPILE,
        "reason": done.message,
        "arch": arch,
        "macros": dict(variant.macros),
        "options": list(done.options),
        "nvrtc": done.version,
        "source_sha256": source_digest(kernel),
        "log": done.log,
        "key": key,
    }
    if done.cubin:
        path = store.blob("compiled", key, ".cubin")
        write_atomically(path, done.cubin)
        # For people and for lines of the source; an execution makes the form that it reads itself.
        write_atomically(store.blob("compiled", key, ".sass"), sass.as_text(path).encode())
        symbol = nvrtc.symbol(kernel.entry, done.resources)
        used = done.resources.get(symbol)
        entry |= {
            "sha256": done.sha256,
            "code": cubin.code_digest(done.cubin),
            "symbol": symbol,
            "resources": {**done.resources, **({kernel.entry: used} if used else {})},
        }
    write_atomically(store.blob("compiled", key, ".json"), json.dumps(entry).encode())
    return entry | {"cached": False}


def _without_compiler(
    variant: Variant, arch: str, recorded: Recorded | None, why: str
) -> dict[str, Any]:
    """Where no NVRTC is: the recorded compilation of the same text, which has a code digest."""
    entry: dict[str, Any] = {
        "status": model.NOT_MEASURED,
        "reason": why,
        "arch": arch,
        "macros": dict(variant.macros),
        "source_sha256": source_digest(variant.kernel),
        "cached": True,
    }
    old = recorded.compiled.get(f"{variant.id}.{arch}") if recorded else None
    if old and old.get("source_sha256") == entry["source_sha256"]:
        entry |= {name: old[name] for name in ("code", "sha256", "resources") if name in old}
    return entry


def compile_variants(
    kernel: Kernel,
    variants: list[Variant],
    architectures: list[str],
    target_arch: int,
    store: Store,
    recorded: Recorded | None,
    folder: Path,
) -> dict[str, Any]:
    """Compile a kernel's variants and copy cubins and listings to ``folder``.

    Returns a document: kernel, provider, source, ``arch`` (the target's), and ``variants``:
    variant id -> architecture -> what was compiled (status, reason, code digest, SHA-256,
    resources, options, log, path of the cubin).
    """
    target = f"sm_{target_arch}"
    wanted = list(dict.fromkeys(target if a == "auto" else a for a in architectures))
    document: dict[str, Any] = {
        "kernel": kernel.name,
        "provider": kernel.provider,
        "source": str(kernel.path),
        "source_sha256": source_digest(kernel),
        "arch": target,
        "variants": {},
    }
    if kernel.provider != "nvrtc":
        code = host_code(kernel)
        for variant in variants:
            host = {"status": model.OK, "reason": "", "code": code, "macros": dict(variant.macros)}
            document["variants"][variant.id] = {
                target: host | {"source_sha256": source_digest(kernel)}
            }
        return document
    why = nvrtc.available()
    folder.mkdir(parents=True, exist_ok=True)
    compiler = threading.Lock()  # compiling changes the process's working folder
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        entries = {
            (variant.id, arch): pool.submit(_compile, variant, arch, store, compiler)
            for variant in ([] if why else variants)
            for arch in wanted
        }
    for variant in variants:
        compiled: dict[str, Any] = {}
        document["variants"][variant.id] = compiled
        for arch in wanted:
            if why:
                compiled[arch] = _without_compiler(variant, arch, recorded, why)
                continue
            entry = compiled[arch] = entries[variant.id, arch].result()
            if entry["status"] == model.OK:
                for suffix in KEPT:
                    blob = store.blob("compiled", entry["key"], suffix)
                    copy = folder / f"{variant.id}.{arch}{suffix}"
                    shutil.copyfile(blob, copy)
                    entry[suffix.strip(".")] = str(copy)
    return document


def lines(entry: dict[str, Any], source_name: str) -> dict[tuple[str, int], tuple[int, str]]:
    """(function, address) -> (line of the kernel file, SASS text) of a compiled variant."""
    path = Path(entry.get("sass", ""))
    if not path.is_file():
        return {}
    listing = sass.parse(path.read_text(encoding="utf-8"), source_name)
    return {(one.function, one.address): (one.line, one.text) for one in listing}
