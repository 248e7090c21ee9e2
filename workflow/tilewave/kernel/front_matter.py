"""Kernel files: one file is one kernel, and its front matter says all that a launch needs."""

import ast
import contextlib
import glob
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from tilewave.basics import files
from tilewave.basics.errors import KernelRefused, NoKernel, UserError
from tilewave.basics.paths import HEADERS, PARTS, has_parts, is_shipped, relative
from tilewave.basics.validation import NoYaml, validated, yaml_of
from tilewave.kernel import includes, operations
from tilewave.kernel.expressions import Expression
from tilewave.kernel.launches import MEMBERS, Provider, Typed
from tilewave.theory.tensor_map_limits import RANKS

Scalar = int | float | str

# Where the front matter stands in each kind of file, and who runs what the file holds.
FENCES = {".cu": ("/*---", "---*/", "nvrtc"), ".py": ('"""---', '---"""', "cpu")}
NAME = re.compile(r"[a-z][a-z0-9_]*")
SET_ELSEWHERE = re.compile(
    r"--?(gpu-architecture|arch|include-path|I|pre-include|include|(create-|use-)?pch|pch-dir|time"
    r"|(f|d)?device-time-trace)\b|-I"
)
"""The architecture, folders of headers, and options that read or write a file of any name."""
SUFFIXES = (".cu", ".py", ".yaml")
OPERATION = re.compile(r"""\boperation\b["']?\s*:""")
"""What tells a kernel file in YAML from another file in YAML."""
MACRO = re.compile(r"[A-Za-z_]\w*", re.ASCII)
# Not in the name of a file, of an anchor of a page, or of a case in a list of words.
VALUE = re.compile(r"[^\x00-\x1f\x7f-\x9f/\\<>|?\"'`]*")
VALUES = "numbers and words without ends of lines and the signs / \\ < > | ? \" ' `"
MOST_FRONT = 16 << 10
"""Letters of front matter; the longest of Tilewave's own has 8,000."""
MOST_CUBIN = 64 << 20
"""Bytes of a cubin that something else compiled."""
MOST_NAME = 200
"""Bytes that a variant's part of a file's name has on usual file systems, with room for what follows it."""
MOST_VARIANTS = 100_000
"""Combinations of a kernel's macros; each is looked at where a study wants all of them."""


class DeclaredBuffer(BaseModel):
    """A probe's buffer, or scratch memory of another operation.

    Of a probe: without ``expect`` and ``report`` and case values it is unchecked output. Of another
    operation: memory beside its operands that nobody reads afterwards; ``zeroed`` memory is zero before
    the first launch, and every launch must leave it so.
    """

    model_config = ConfigDict(extra="forbid")
    dtype: str
    size: Expression
    expect: Expression | None = None
    report: dict[str, str] | None = None
    zeroed: bool = False


class DeclaredTensorMap(BaseModel):
    """A tensor map (TMA descriptor) of an operand or of scratch memory, an argument by its name.

    All lists have the contiguous dimension first. ``box``: elements that one copy moves, of one to five
    dimensions. ``sizes``: elements of the array; left out, the operand's. ``strides``: elements from one
    to the next along each dimension but the first; left out, the operand's, or no gaps.
    ``element_strides``: of every how many elements a box takes one, for each dimension; the driver
    ignores the first. ``swizzle``: bytes of the pattern in shared memory (0: none). ``l2``: bytes that
    L2 fetches at least (0: no promotion).
    """

    model_config = ConfigDict(extra="forbid")
    of: str
    box: list[Expression] = Field(min_length=RANKS[0], max_length=RANKS[-1])
    sizes: list[Expression] | None = None
    strides: list[Expression] | None = None
    element_strides: list[Expression] | None = None
    swizzle: Expression = 0
    l2: Expression = 128

    @property
    def expressions(self) -> Iterator[tuple[str, Expression]]:
        """Key and text of all that is to be evaluated."""
        for key in ("box", "sizes", "strides", "element_strides"):
            yield from ((f"{key}.{i}", text) for i, text in enumerate(getattr(self, key) or ()))
        yield "swizzle", self.swizzle
        yield "l2", self.l2


class WorkOf(BaseModel):
    """What one launch of a probe does, for a rate: expressions over macros and scalars."""

    model_config = ConfigDict(extra="forbid")
    flop: Expression | None = None
    byte: Expression | None = None


class ProbeCase(BaseModel):
    """One named case of a probe, with what the counters and buffers should show."""

    model_config = ConfigDict(extra="forbid")
    macros: dict[str, Scalar] = Field(default_factory=dict)
    values: dict[str, Expression] = Field(default_factory=dict)
    sizes: dict[str, Expression] = Field(default_factory=dict)
    scalars: dict[str, Expression] = Field(default_factory=dict)
    expect: dict[str, float] = Field(default_factory=dict)
    claimed: dict[str, float] = Field(default_factory=dict)
    instruction: str | None = None
    status: str = Field("ok", description="How the case ends on purpose, e.g. `timed out`.")
    finds: Literal["", "race", "uninitialised read", "barrier"] = Field(
        "", description="What executing the case finds on purpose."
    )
    limit_s: float | None = Field(None, gt=0, description="Shortens the check's limit.")
    note: str = ""


class Compiler(BaseModel):
    """What the compiler gets besides macros. ``options``: its own words, ``{MACRO}`` in them a macro's
    value. ``include``: folders of headers, from the kernel file's own; that one comes first."""

    model_config = ConfigDict(extra="forbid")
    options: list[str] = Field(default_factory=list)
    include: list[str] = Field(default_factory=list)


def _unit() -> list[Expression]:
    """One of something: the geometry where the front matter says nothing."""
    return [1]


def _member(given: Any, depth: int = 0) -> Any:
    """An argument as front matter has it: a list is a struct, ``{i64: lda}`` a member of it."""
    if isinstance(given, list):
        return tuple(_member(part, depth + 1) for part in given)
    if isinstance(given, dict) and depth and len(given) == 1:
        ((dtype, value),) = given.items()
        if dtype in MEMBERS and isinstance(value, str | int | float):
            return Typed(dtype, value)
    if isinstance(given, dict) or (depth and not isinstance(given, str | int | float | None)):
        raise ValueError(
            f"a name, a number, null, a list, or {{TYPE: VALUE}} of {', '.join(MEMBERS)}"
        )
    return given


class Launched(BaseModel):
    """What front matter says of one launch."""

    model_config = ConfigDict(extra="forbid")
    block: list[Expression] = Field(default_factory=_unit)
    grid: list[Expression] = Field(default_factory=_unit)
    cluster: list[Expression] | None = Field(
        None, description="Thread blocks of a cluster; the grid still counts blocks."
    )
    shared_bytes: Expression = 0
    arguments: list[Expression | bool | Typed | tuple[Any, ...] | None] = Field(
        default_factory=list,
        description="Names, expressions, numbers; null is a null pointer, a list a struct by value.",
    )

    @field_validator("arguments", mode="before")
    @classmethod
    def _structs(cls, given: Any) -> Any:
        return [_member(argument) for argument in given] if isinstance(given, list) else given


class OneOfSeries(Launched):
    """One of several launches in a row; all their kernels are in the file."""

    entry: str


class FrontMatter(Launched):
    """The YAML block at the top of a kernel file."""

    title: str
    operation: str
    idea: str = ""
    follows: str | None = None
    provider: Provider | None = None
    dtypes: dict[str, str] = Field(default_factory=dict)
    layouts: dict[str, str] = Field(default_factory=dict)
    macros: dict[str, list[Scalar]] = Field(default_factory=dict)
    where: list[str] = Field(default_factory=list)
    let: dict[str, Expression] = Field(
        default_factory=dict, description="Named expressions; each may use the ones before it."
    )
    strides: dict[str, Expression] = Field(
        default_factory=dict,
        description="Leading dimensions (`lda`) and batch strides (`stride_a`) of padded memory.",
    )
    tile: list[Expression] | None = None
    launches: list[OneOfSeries] = Field(
        default_factory=list, description="Several launches in a row, as one case."
    )
    working_blocks: Expression | None = None
    programmatic: Expression = Field(
        0,
        description="1: a launch may begin before the one before it has ended (programmatic dependent launch). "
        "The kernel waits for that by griddepcontrol.wait before it reads or writes global memory.",
    )
    flop_rate: float | None = Field(
        None, gt=0, description="FLOP/s this surely reaches; bounds the cost before anything runs."
    )
    reads_c: bool = Field(
        False, description="The product reads C even where beta is 0: its check gives it numbers."
    )
    requires: dict[str, Any] = Field(default_factory=dict)
    cubin: str | None = Field(
        None,
        description="Of a .yaml file: code that something else compiled, `{MACRO}` in its name.",
    )
    architecture_specific: bool = Field(
        False, description="Compiled for sm_90a instead of sm_90: wgmma, setmaxnreg and their like."
    )
    compiler: Compiler = Field(default_factory=Compiler)
    work: WorkOf | None = None
    entry: str | None = None
    buffers: dict[str, DeclaredBuffer] = Field(default_factory=dict)
    tensor_maps: dict[str, DeclaredTensorMap] = Field(default_factory=dict)
    cases: dict[str, ProbeCase] = Field(default_factory=dict)


@dataclass(frozen=True)
class Kernel:
    """A kernel file: where it lies, its front matter and its text."""

    path: Path
    front: FrontMatter
    text: str

    @cached_property
    def name(self) -> str:
        return self.path.stem

    @property
    def provider(self) -> Provider:
        return self.front.provider or "nvrtc"

    @property
    def entry(self) -> str:
        """The kernel that is launched; of several the one that leads."""
        first = self.front.launches[0].entry if self.front.launches else self.name
        return self.front.entry or first

    @property
    def launches(self) -> Sequence[tuple[str, Launched]]:
        """The launches of a case in their order, each with its kernel."""
        series = [(launch.entry, launch) for launch in self.front.launches]
        return series or [(self.entry, self.front)]

    @property
    def entries(self) -> tuple[str, ...]:
        """The kernels that a case launches, each once."""
        return tuple(dict.fromkeys(entry for entry, _ in self.launches))

    @property
    def leading(self) -> int:
        """Place among the launches of the one that leads, the first of `entry`."""
        return [entry for entry, _ in self.launches].index(self.entry)

    @property
    def front_lines(self) -> int:
        """Lines up to the end of front matter: all of them in a file that has nothing else."""
        lines = self.text.splitlines()
        if self.path.suffix not in FENCES:
            return len(lines)
        _, closing, _ = FENCES[self.path.suffix]
        return next((at for at, line in enumerate(lines, 1) if closing in line), 0)

    @property
    def folders(self) -> tuple[Path, ...]:
        """Where headers of its own are looked for, in order: its folder, those that front matter names, and of
        Tilewave's kernels the one that they share."""
        folder = self.path.parent
        shared = (parent / HEADERS for parent in (folder, folder.parent) if has_parts(parent))
        return folder, *(folder / name for name in self.front.compiler.include), *shared

    @cached_property
    def chosen(self) -> dict[str, Any]:
        """What blocks of a config choose of its variants, by what they ask: many ask the same (`cases`)."""
        return {}

    @cached_property
    def names_used(self) -> dict[str, frozenset[str]]:
        """Expression -> the names that it asks for, also through `let`, of those that were looked at."""
        return {}

    @cached_property
    def headers(self) -> dict[str, str]:
        """Name -> text of the headers in these folders that it includes, directly or not, as they were when
        this was asked first."""
        return includes.kernel_headers(self.text, *self.folders)

    def compiler_options(self, macros: Mapping[str, Any]) -> list[str]:
        """What the compiler is told besides what it always is.

        Raises UserError for an option that is not the kernel's to set, or asks for another macro.
        """
        options = []
        for given in self.front.compiler.options:
            key = "compiler.options"
            if SET_ELSEWHERE.match(given):
                allowed = "any but the architecture (the target's), folders (`compiler: include`) and other files"
                raise UserError(self.path, key, given, allowed)
            options.append(self.formatted(key, given, macros))
        return options

    def formatted(self, key: str, given: str, macros: Mapping[str, Any]) -> str:
        """A text of front matter with macros in braces. Raises UserError where it asks for another one."""
        try:
            return given.format(**macros)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            allowed = [f"{{{name}}}" for name in macros] or "no macro in braces"
            raise UserError(self.path, key, given, allowed) from error


def _split(path: Path, text: str) -> tuple[str, str | None]:
    """Front matter and the provider that the file's kind implies. Raises NoKernel where there is none."""
    if path.suffix == ".yaml":
        if OPERATION.search(text):
            return text, None
        raise NoKernel(path, "operation", None, "an operation, in a file that is a kernel")
    opening, closing, provider = FENCES[path.suffix]
    start = text.find(opening)
    end = text.find(closing, start + len(opening))
    if start < 0 or end < 0 or text[:start].strip():
        allowed = f"front matter between {opening} and {closing}"
        if path.suffix == ".cu":
            allowed += f", which `tilewave wrap {relative(path)}` writes"
        raise NoKernel(path, "line 1", "no front matter", allowed)
    return text[start + len(opening) : end], provider


def load_kernel(path: Path) -> Kernel:
    """Read one kernel file.

    Raises KernelRefused where the file is none that may be read (see `files.content`), NoKernel where it
    has no front matter; UserError where that is not YAML or too much of it, has a key twice, breaks the model or
    names an operation that does not exist.
    """
    try:
        text = files.text(path)
    except KernelRefused:
        raise
    except UserError as error:
        if path.suffix in FENCES and FENCES[path.suffix][0].encode() in files.content(path):
            raise
        raise NoKernel(path, error.key, error.found, error.allowed) from error
    block, implied = _split(path, text)
    if len(block) > MOST_FRONT:  # libyaml ends the process where lists are nested 25,000 times
        allowed = f"{MOST_FRONT} letters at most"
        raise KernelRefused(path, "front matter", f"{len(block)} letters", allowed)
    try:
        data = yaml_of(block)
    except NoYaml as error:
        raise UserError(path, f"front matter {error.place}", error.found, error.allowed) from error
    if not isinstance(data, dict):
        raise UserError(path, "front matter", type(data).__name__, "a mapping of keys")
    front = validated(FrontMatter, data, path)
    if front.operation not in operations.names():
        raise UserError(path, "operation", front.operation, operations.names())
    _check_macros(path, front.macros)
    series = [launch.entry for launch in front.launches]
    if series and front.entry not in (None, *series):
        raise UserError(path, "entry", front.entry, series)
    if front.cubin is not None:
        if implied is not None:
            raise UserError(path, "cubin", front.cubin, "a .yaml file: this one is compiled")
        implied = "nvrtc"
    if implied is not None and front.provider not in (None, implied):
        raise UserError(path, "provider", front.provider, [implied])
    if front.provider is None:
        if implied is None:
            raise UserError(path, "provider", None, "cublaslt or cpu, or a `cubin`")
        front = front.model_copy(update={"provider": implied})
    return Kernel(path, front, text)


def _check_macros(path: Path, macros: Mapping[str, Sequence[Scalar]]) -> None:
    """Names that the preprocessor takes; values that may stand in a file's name, as those of a variant do.

    Raises UserError.
    """
    combinations = 1
    for name, values in macros.items():
        if not MACRO.fullmatch(name):
            raise UserError(path, "macros", name, "names of letters, digits and _")
        if not values or len(set(map(str, values))) != len(values):
            raise UserError(path, f"macros.{name}", values, "a list of different values")
        for value in values:
            if not VALUE.fullmatch(str(value)):
                raise UserError(path, f"macros.{name}", value, VALUES)
        combinations *= len(values)
        if combinations > MOST_VARIANTS:
            found = f"{combinations} combinations"
            raise KernelRefused(path, f"macros.{name}", found, f"{MOST_VARIANTS} at most")
    longest = sum(
        len(name) + max(len(str(value)) for value in values) + 1 for name, values in macros.items()
    )
    if len(path.stem) + longest > MOST_NAME:
        allowed = f"names and values of {MOST_NAME} letters together: they are a file's name"
        raise UserError(path, "macros", f"{len(path.stem) + longest} letters", allowed)


def _check_name(path: Path) -> None:
    """A kernel file has a name that cases can have. Raises NoKernel."""
    if not NAME.fullmatch(path.stem) or path.stem == "all":
        allowed = "a lower-case letter, then letters, digits and _; not `all`"
        if path.suffix == ".cu":
            allowed += f". `tilewave wrap {relative(path)}` writes a file that includes this one"
        raise NoKernel(path, "file name", path.stem, allowed)


def line_of(text: str, key: str) -> int:
    """The line of a file's front matter that the first word of a key stands in; 1 where none does."""
    first = re.escape(key.partition(".")[0])
    match = re.search(rf"""^\s*["']?{first}["']?\s*:""", text, re.MULTILINE)
    at = re.search(r"\bline (\d+)$", key)
    return int(at[1]) if at else text.count("\n", 0, match.end()) + 1 if match else 1


def spared(path: Path, folders: Sequence[Path]) -> bool:
    """Whether a run goes on without a kernel file that has a mistake: it was found in a folder that is not
    Tilewave's own."""
    return path not in folders and not is_shipped(path)


def kernel_files(folder: Path) -> list[Path]:
    """The files of a folder of kernels by name, of one laid out as Tilewave's own those of its parts behind them; a
    kernel file stands for itself."""
    if not folder.is_dir():
        return [folder]
    parts = [folder / part for part in PARTS] if has_parts(folder) else []
    return [path for part in (folder, *parts) for path in sorted(part.iterdir())]


def find_kernels(
    folders: Iterable[Path], left_out: dict[str, UserError] | None = None
) -> dict[str, Kernel]:
    """All kernels of the folders by name, in the order of folders and file names; a kernel file among
    the folders stands for itself.

    left_out: gets, by name, why a file was left out: it cannot be read at all, or it is `spared` and no
    kernel file, or its front matter has a mistake. Without it that is raised.
    Raises UserError for a folder that does not exist and for two files of one name.
    """
    kernels: dict[str, Kernel] = {}
    folders = list(folders)
    for folder in folders:
        if not folder.exists():
            raise UserError("config", "kernel_folders", str(folder), "folders that exist")
        for path in kernel_files(folder):
            if path.suffix not in SUFFIXES or path.name.startswith((".", "_")):
                continue
            try:
                _check_name(path)
                kernel = load_kernel(path)
            except UserError as error:
                unread = isinstance(error, KernelRefused) and not isinstance(error, NoKernel)
                mine = error.where_file == str(path)  # and no mistake in a folder of operations
                if left_out is None or not mine or not (unread or spared(path, folders)):
                    raise
                if not isinstance(error, KernelRefused):
                    error.at(line_of(path.read_text("utf-8", "replace"), error.key))
                left_out[path.name if path.stem in left_out else path.stem] = error
                continue
            if kernel.name in kernels:
                raise UserError(path, "file name", kernel.name, "a name no other kernel file has")
            kernels[kernel.name] = kernel
    if left_out:
        _settle(left_out, kernels)
    return kernels


def _settle(left_out: dict[str, UserError], kernels: Mapping[str, Kernel]) -> None:
    """Without the files that a kernel includes, as `tilewave wrap` writes kernels; a file of a kernel's name goes
    by its own with the suffix."""
    texts = (kernel.text for kernel in kernels.values() if kernel.provider == "nvrtc")
    included = {Path(name).name for text in texts for _, name in includes.INCLUDE.findall(text)}
    for name, why in list(left_out.items()):
        file = Path(why.where_file).name
        if isinstance(why, NoKernel) and file in included:
            del left_out[name]
        elif name in kernels:
            left_out[file] = left_out.pop(name)


def cubins(kernel: Kernel) -> dict[str, str]:
    """SHA-256 of each file that may be the code of one of its variants, by name."""
    if kernel.front.cubin is None:
        return {}
    folder, digests = kernel.path.parent, dict[str, str]()
    parts = PurePosixPath(kernel.front.cubin).parts
    if not parts or parts[0] == "/" or ".." in parts or "\0" in kernel.front.cubin:
        return digests  # refused where it is read
    pattern = re.sub(r"(?:\{[^{}]*\})+", "*", glob.escape(kernel.front.cubin))
    for path in sorted(folder.glob(pattern)):
        with contextlib.suppress(KernelRefused):  # told by the variant whose code it is
            if files.lies_in(path, [folder]):
                digest = hashlib.sha256(files.content(path, MOST_CUBIN)).hexdigest()
                digests[path.relative_to(folder).as_posix()] = digest
    return digests


def source_digest(kernel: Kernel) -> str:
    """SHA-256 of the file's text, of the headers of its own that it includes, and of its cubins."""
    digest = hashlib.sha256(kernel.text.encode())
    for name, text in kernel.headers.items():
        digest.update(f"\0{name}\0{text}".encode())
    for name, code in cubins(kernel).items():
        digest.update(f"\0{name}\0{code}".encode())
    return digest.hexdigest()


def operation_code(name: str) -> str:
    """Digest of a user's operation, and of the kernel that is its reference; empty for one of ours."""
    file = operations.kernel_of(name)
    more = f"-{source_digest(load_kernel(file))[:16]}" if file else ""
    return operations.MODULES.code(name) + more


def host_code(kernel: Kernel) -> str:
    """Digest of a host kernel without comments and the docstring that holds front matter.

    Unparsed, because the tree's own dump differs between versions of Python.
    """
    if kernel.path.suffix != ".py":
        return kernel.provider  # a vendor's product: there is no source
    try:
        tree = ast.parse(kernel.text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # its cases say so when they run
        return hashlib.sha256(kernel.text.encode()).hexdigest()
    body = tree.body[1:] if ast.get_docstring(tree) is not None else tree.body
    text = "\n".join(ast.unparse(node) for node in body)
    return hashlib.sha256(text.encode()).hexdigest()


def idea(kernel: Kernel) -> list[str]:
    """The idea in paragraphs: the front matter's `idea`, else the comment that follows it."""
    if kernel.front.idea:
        return [kernel.front.idea.strip()]
    if kernel.path.suffix not in FENCES:
        return []
    _, closing, _ = FENCES[kernel.path.suffix]
    sign = "#" if kernel.path.suffix == ".py" else "//"
    paragraphs: list[list[str]] = [[]]
    for line in kernel.text.partition(closing)[2].splitlines()[1:]:
        text = line.strip()
        if text and not text.startswith(sign):
            break
        comment = text.removeprefix(sign).strip()
        if comment:
            paragraphs[-1].append(comment)
        elif paragraphs[-1]:
            paragraphs.append([])
    return [" ".join(lines) for lines in paragraphs if lines]
