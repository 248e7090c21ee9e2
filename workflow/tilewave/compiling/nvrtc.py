"""Compilation of a kernel variant with NVRTC to a cubin."""

import contextlib
import ctypes
import functools
import hashlib
import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from tilewave.basics.errors import printable
from tilewave.basics.packages import nvrtc_version
from tilewave.compiling import headers, mangling, nvcc, source
from tilewave.compiling.cubin import resources
from tilewave.kernel import includes
from tilewave.kernel.expressions import Names
from tilewave.kernel.front_matter import Kernel
from tilewave.theory.architectures import of as architecture

CLONE_FS = 0x200
"""Flag of unshare(2): the thread gets a working folder of its own."""
STACK = 64 << 20
"""Bytes of the stack of a compiling thread: NVRTC crashes where an expression nests deeper than its stack."""
LANGUAGE = "-std=c++17"
STANDARD = re.compile("--?std=")
MESSAGE = re.compile(
    r"^(?P<file>[^\s(]+)\((?P<line>\d{1,9})\): (?:catastrophic )?error:? (?P<text>.*)$", re.M
)
UNREAD = re.compile(r'(cannot open source file "[^"\n]*")[^\n]*')
"""A file that cannot be read: the reason would tell whether a file outside the kernel's folders exists."""
OF_PTXAS = re.compile(r"\bptxas (?P<kind>error|fatal)\s*: (?P<text>.*)")
TOO_MUCH_SHARED = (
    " (more than 48 KB must be `extern __shared__` memory: set `shared_bytes` in the front matter)"
)
OF_NVRTC = "__nv_nvrtc_builtin_header.h"
ENTRY = re.compile(r"Compiling entry function '(?P<name>\w+)'")
NUMBER = r"\b(\d{1,18})"
SPILLS = re.compile(
    f"{NUMBER} bytes stack frame, {NUMBER} bytes spill stores, {NUMBER} bytes spill loads"
)
USED = re.compile(f"Used {NUMBER} registers")
SHARED = re.compile(f"{NUMBER} bytes smem")


@dataclass(frozen=True)
class Compiled:
    """A compilation's output: the cubin, or a message with file and line.

    ``resources`` maps an entry to registers a thread and bytes of static shared memory, stack, spill stores
    and spill loads, as ptxas reports them. ``named`` maps an entry that is an expression (``gemm<128, 8>``)
    to its name in the cubin; ``warning`` names skipped parts of the text.
    """

    cubin: bytes | None
    options: tuple[str, ...]
    version: str
    log: str
    message: str = ""
    resources: dict[str, dict[str, int]] = field(default_factory=dict)
    named: dict[str, str] = field(default_factory=dict)
    warning: str = ""

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.cubin or b"").hexdigest()


def available() -> str:
    """Return the reason why NVRTC cannot be used; empty if it can."""
    try:
        version()
    except Exception as error:  # ImportError, missing library, wrong platform: all mean no NVRTC
        return f"NVRTC cannot be loaded: {error}".splitlines()[0]
    return ""


version = functools.cache(nvrtc_version)


@functools.lru_cache(maxsize=1)
def architectures() -> tuple[str, ...]:
    """Return NVRTC's targets, e.g. ``sm_90`` and ``sm_90a``, also family-specific ones; empty without NVRTC."""
    try:
        from cuda.bindings import nvrtc

        error, numbers = nvrtc.nvrtcGetSupportedArchs()
    except Exception:  # as in `available`
        return ()
    if error:
        return ()
    suffixes = {number: ("", *architecture(number).targets) for number in numbers}
    return tuple(f"sm_{number}{of}" for number, all_of in suffixes.items() for of in all_of)


def options(kernel: Kernel, arch: str, macros: Names) -> tuple[str, ...]:
    """Return the compiler options; they and the text decide the cubin's bytes."""
    defines = [f"-D{name}={value}" for name, value in macros.items()]
    requested = kernel.compiler_options(macros)
    language = [] if any(STANDARD.match(option) for option in requested) else [LANGUAGE]
    return (f"-arch={arch}", *language, "-lineinfo", "--ptxas-options=-v", *requested, *defines)


def target_of(kernel: Kernel, arch: str) -> str:
    """Return a kernel's compiler target: ``sm_90a`` for ``sm_90`` if its front matter requests such features."""
    plain = arch.removeprefix("sm_")
    specific = kernel.front.architecture_specific and plain.isdigit()
    return f"{arch}a" if specific and "a" in architecture(int(plain)).targets else arch


def expressions(kernel: Kernel) -> list[str]:
    """Return the entries that are expressions, which NVRTC instantiates: ``gemm<128, TILE>``, ``ns::kernel``."""
    return [entry for entry in kernel.entries if re.search(r"[<:]", entry)]


def _adapted(kernel: Kernel) -> nvcc.Adapted | None:
    if nvcc.UNANNOTATED in kernel.front.compiler.options:  # the host's code is meant, too
        return None
    return nvcc.adapted(kernel.path.name, kernel.text, kernel.headers, " ".join(kernel.entries))


def text_key(kernel: Kernel, arch: str, macros: Names) -> str:
    """Return the content key of the compiler's input: code without comments, headers, options, adapted forms."""
    parts = [
        kernel.path.name,
        source.code(kernel.text),
        *options(kernel, arch, macros),
        *(part for name, text in kernel.headers.items() for part in (name, source.code(text))),
    ]
    adapted = _adapted(kernel)
    if adapted is not None:
        parts += map(source.code, (adapted.text, *adapted.headers.values(), adapted.prelude))
        parts += adapted.options
    return _digest(*parts, *expressions(kernel))


def cache_key(kernel: Kernel, arch: str, macros: Names) -> str:
    """Return the content key of a compilation: `text_key`, CUDA's headers and NVRTC's version."""
    toolkit = [headers.toolkit(kernel.text, kernel.headers).digest]
    adapted = _adapted(kernel)
    if adapted is not None:
        text = adapted.prelude + kernel.text
        toolkit.append(headers.toolkit(text, kernel.headers, nvcc=True).digest)
    return _digest(text_key(kernel, arch, macros), *toolkit, version())


def _digest(*parts: str) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode())
        digest.update(b"\1")
    return digest.hexdigest()


def _resources(log: str) -> dict[str, dict[str, int]]:
    by_entry: dict[str, dict[str, int]] = {}
    for part in re.split(r"(?=ptxas info\s*: Compiling entry function)", log):
        entry, used = ENTRY.search(part), USED.search(part)
        if not entry or not used:
            continue
        spills = SPILLS.search(part)
        stack = map(int, spills.groups() if spills else (0, 0, 0))
        shared = SHARED.search(part)
        static = int(shared[1]) if shared else 0
        by_entry[entry["name"]] = resources(int(used[1]), static, *stack)
    return by_entry


class NoSymbol(ValueError):
    """The front matter's ``entry`` names no kernel of the file, or several."""


def symbol(entry: str, names: Iterable[str]) -> str:
    """Return the name in the cubin (mangled by the Itanium C++ ABI, unless ``extern "C"``) of the kernel
    ``entry``. Raises NoSymbol if no name contains the entry in this form, or several do."""
    all_names = sorted(names)
    if entry in all_names:
        return entry
    mangled = re.compile(rf"_Z.*(?<!\d){len(entry)}{re.escape(entry)}")
    matching = [name for name in all_names if mangled.match(name)]
    if len(matching) == 1:
        return matching[0]
    choices = matching or all_names
    shown = list(dict.fromkeys(map(mangling.function, choices)))
    if len(shown) < len(choices):  # overloads of one name
        shown = choices
    if matching:
        problem = f"is ambiguous: it may be {', '.join(shown)}"
    else:
        there = f", which are {', '.join(shown)}" if all_names else ""
        problem = f"is none of the file's kernels{there}"
    remedy = "one of these names" if all_names else "a __global__ function that is instantiated"
    raise NoSymbol(f"entry {entry} {problem}. Set `entry` in the front matter to {remedy}")


def compile_kernel(kernel: Kernel, arch: str, macros: Names) -> Compiled:
    """Compile one kernel file with its macros for ``arch``; adapted (`nvcc.adapted`) if NVRTC refuses it as
    it is. Without a cubin there is the compiler's first message with file and line; nothing is raised."""
    chosen, names = options(kernel, arch, macros), expressions(kernel)
    file, kernel_headers = kernel.path.name, kernel.headers
    toolkit = headers.toolkit(kernel.text, kernel_headers).texts
    if kernel_headers.keys() & toolkit.keys():
        # Else CUDA's headers would also include the kernel's header of that name.
        kernel_headers = includes.kernel_headers(kernel.text, *kernel.folders, taken=toolkit)
    done = _compile(file, kernel.text, {**toolkit, **kernel_headers}, chosen, names)
    adapted = None if done.cubin else _adapted(kernel)
    if adapted is None:
        return done
    toolkit = headers.toolkit(adapted.prelude + kernel.text, kernel_headers, nvcc=True).texts
    all_headers = {**toolkit, **kernel_headers, **adapted.headers, nvcc.PRELUDE: adapted.prelude}
    in_front = (f"--pre-include={nvcc.PRELUDE}",) if adapted.prelude else ()
    before = (*chosen, *adapted.options, *in_front)
    done = tried = _compile(file, adapted.text, all_headers, before, names, adapted)
    absent: list[str] = []
    while missing := nvcc.NOT_FOUND.search(tried.message):  # perhaps only host code needs it
        if missing[1] in absent:
            break
        absent.append(missing[1])
        all_headers[missing[1]] = ""
        tried = _compile(file, adapted.text, all_headers, before, names, adapted)
    if not absent or tried.cubin is None:
        return done
    warning = f"not found, and taken for empty: {', '.join(absent)}"
    return replace(tried, warning="; ".join(filter(None, (tried.warning, warning))))


def _compile(
    file: str,
    text: str,
    all_headers: Mapping[str, str],
    chosen: tuple[str, ...],
    named: Sequence[str],
    adapted: nvcc.Adapted | None = None,
) -> Compiled:
    # Headers in memory have priority; the folders serve only names that a scan of #include misses.
    # Without --no-cache a driver's cache would give the cubin of an equal program, without ptxas' log.
    flags = (*chosen, "--no-cache", *(f"-I{folder}" for folder in includes.folders()))
    with ThreadPoolExecutor(1) as thread:
        usual = threading.stack_size(STACK)
        done = thread.submit(_run, file, text, all_headers, flags, named)
        threading.stack_size(usual)
        failed, compiler_log, cubin, symbols = done.result()
    log = UNREAD.sub(r"\1", printable(compiler_log.decode(errors="replace")))
    warning = adapted.warning if adapted else ""
    if cubin is None:
        message = _message(log, adapted, chosen) or str(failed)
        return Compiled(None, chosen, version(), log, message, warning=warning)
    return Compiled(cubin, chosen, version(), log, "", _resources(log), symbols, warning)


def _checked(answer: tuple[Any, ...], call: str) -> Any:
    """Return what an NVRTC call gave after its error code. Raises RuntimeError."""
    error, *values = answer
    if error:
        raise RuntimeError(f"{call}: {error.name}")
    return values[0] if values else None


@contextlib.contextmanager
def _ptxas_has_memory() -> Iterator[None]:
    """Raise MemoryError if ptxas ran out of memory: only standard error says so. Pass on what else stands there."""
    usual, collected = os.dup(2), os.memfd_create("error")
    os.dup2(collected, 2)
    try:
        yield
    finally:
        os.dup2(usual, 2)
        written = os.pread(collected, 1 << 16, 0)
        for descriptor in usual, collected:
            os.close(descriptor)
    if b"Memory allocation failure" in written:
        raise MemoryError
    os.write(2, written)


def _run(
    file: str, text: str, all_headers: Mapping[str, str], flags: Sequence[str], named: Sequence[str]
) -> tuple[Any, bytes, bytes | None, dict[str, str]]:
    """Return NVRTC's error (0 if it compiled), its log, the cubin, and the entries' names in the cubin. It is
    called itself, because cuda.core's Program takes no headers in memory and only options that it lists."""
    from cuda.bindings import nvrtc

    # NVRTC puts the working folder before relative names: this thread gets its own. Some containers
    # forbid that, and the folder changes for the process meanwhile.
    ctypes.CDLL(None).unshare(CLONE_FS)
    with contextlib.chdir("/"):
        contents, names = map(str.encode, all_headers.values()), map(str.encode, all_headers)
        source_name = f"kernels/{file}".encode()
        given = len(all_headers), list(contents), list(names)
        created = nvrtc.nvrtcCreateProgram(text.encode(), source_name, *given)
        program = _checked(created, "nvrtcCreateProgram")

        def read(what: str) -> bytes:
            size = getattr(nvrtc, f"nvrtcGet{what}Size")(program)
            buffer: bytes = b" " * _checked(size, f"nvrtcGet{what}Size")
            _checked(getattr(nvrtc, f"nvrtcGet{what}")(program, buffer), f"nvrtcGet{what}")
            return buffer

        try:
            for expression in named:
                added = nvrtc.nvrtcAddNameExpression(program, expression.encode())
                _checked(added, "nvrtcAddNameExpression")
            options = [flag.encode() for flag in flags]
            with _ptxas_has_memory():
                (failed,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
            log = read("ProgramLog").rstrip(b"\0 ")
            if failed:
                return failed, log, None, {}
            symbols = {}
            for expression in named:
                lowered = nvrtc.nvrtcGetLoweredName(program, expression.encode())
                symbols[expression] = _checked(lowered, "nvrtcGetLoweredName").decode()
            return failed, log, read("CUBIN"), symbols
        finally:
            _checked(nvrtc.nvrtcDestroyProgram(program), "nvrtcDestroyProgram")


def _message(log: str, adapted: nvcc.Adapted | None, options: Sequence[str] = ()) -> str:
    """Return the compiler's first message with file and line, or that of ptxas, and advice."""
    match = MESSAGE.search(log)
    if match is None:
        of_ptxas = OF_PTXAS.search(log)
        if of_ptxas is None:
            return log.strip().partition("\n")[0]
        hint = TOO_MUCH_SHARED if "too much shared data" in of_ptxas["text"] else ""
        return f"ptxas {of_ptxas['kind']}: {mangling.plain(of_ptxas['text'])}{hint}"
    file = os.path.basename(match["file"])
    hint = adapted.hint(int(match["line"]), match["text"]) if adapted else ""
    if file == OF_NVRTC:
        quoted = log[match.end() :].strip().partition("\n")[0]
        defined = re.findall(r"-D(\w+)=", " ".join(options))
        clashing = [name for name in defined if re.search(rf"\b{name}\b", quoted)]
        if clashing:
            hint = f"the macro {clashing[0]} needs another name: CUDA's headers use it"
    return f"{file}:{match['line']}: {match['text']}" + (f" ({hint})" if hint else "")
