"""Kernel files: one file is one kernel, and its front matter holds all that a launch needs."""

import ast
import contextlib
import glob
import hashlib
import re
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from tilewave.basics import files
from tilewave.basics.errors import KernelRefused, NoKernel, UserError, shown
from tilewave.basics.paths import HEADERS, PARTS, has_parts, is_shipped, relative
from tilewave.basics.validation import NoYaml, mapping, validated, yaml_of
from tilewave.kernel import includes, operations
from tilewave.kernel.expressions import Expression
from tilewave.kernel.launches import MEMBERS, Provider, Typed
from tilewave.theory.tensor_map_limits import RANKS

Scalar = int | float | str

GUESSED, INFERRED = "guessed", "inferred"
"""Comments of `tilewave wrap` on a key: what no code says, and what a failed trial suggests."""
# Start and end of the front matter in each kind of file, and its provider.
FENCES = {".cu": ("/*---", "---*/", "nvrtc"), ".py": ('"""---', '---"""', "cpu")}
NAME = re.compile(r"[a-z][a-z0-9_]*")
SET_ELSEWHERE = re.compile(
    r"--?(gpu-architecture|arch|include-path|I|pre-include|include|(create-|use-)?pch|pch-dir|time"
    r"|(f|d)?device-time-trace)\b|-I|(?!-D|--define-macro).*([/@]|\b(optf|options-file|output-file)\b)",
    re.DOTALL,
)
"""Options for the architecture, for folders of headers, and those that read or write any file (ptxas' too)."""
SUFFIXES = (".cu", ".py", ".yaml")
OPERATION = re.compile(r"""\boperation\b["']?\s*:""")
"""The key by which a kernel file in YAML differs from another file in YAML."""
MACRO = re.compile(r"[A-Za-z_]\w*", re.ASCII)
# Other characters would break a file name, an anchor of a page, or a case in a list.
VALUE = re.compile(r"[^\x00-\x1f\x7f-\x9f/\\<>|?\"'`@()]*")
VALUES = "numbers and words without line ends and the characters / \\ < > | ? \" ' ` @ ( )"
MOST_FRONT = 16 << 10
"""Limit of front matter in characters; Tilewave's longest has 8,000."""
MOST_CUBIN = 64 << 20
"""Limit of a cubin from elsewhere, in bytes."""
MOST_NAME = 200
"""Limit of a variant's part of a file name, in bytes: usual file systems allow 255."""
MOST_VARIANTS = 100_000
"""Limit of the combinations of a kernel's macros: a study may look at all of them."""


class DeclaredBuffer(BaseModel):
    """A probe's buffer, or scratch memory of another operation.

    A probe's buffer without ``expect``, ``report`` and case values is unchecked output. Scratch memory lies
    beside the operands and is not read afterwards. ``zeroed`` memory is zero before the first launch, and
    every launch must leave it so.
    """

    model_config = ConfigDict(extra="forbid")
    dtype: str = Field(description="dtype of the elements")
    size: Expression = Field(description="number of elements")
    expect: Expression | None = None
    report: dict[str, str] | None = None
    zeroed: bool = False


class DeclaredTensorMap(BaseModel):
    """A tensor map (TMA descriptor) of an operand or of scratch memory, an argument by its name.

    All lists have the contiguous dimension first.
    """

    model_config = ConfigDict(extra="forbid")
    of: str = Field(description="an array or buffer")
    box: list[Expression] = Field(
        min_length=RANKS[0],
        max_length=RANKS[-1],
        description="elements of a copy, one to five numbers of at most 256; the contiguous dimension comes first, "
        "here and below",
    )
    sizes: list[Expression] | None = Field(
        None, description="elements of the array; default: the array's own"
    )
    strides: list[Expression] | None = Field(
        None,
        description="elements from one to the next along each dimension but the first; default: the array's own, or no "
        "gaps",
    )
    element_strides: list[Expression] | None = Field(
        None, description="every how many elements a box takes one; the driver ignores the first"
    )
    swizzle: Expression = Field(0, description="0 (default), 32, 64 or 128 bytes")
    l2: Expression = Field(128, description="bytes that L2 fetches: 0, 64, 128 (default) or 256")

    @property
    def expressions(self) -> Iterator[tuple[str, Expression]]:
        """Key and text of all expressions."""
        for key in ("box", "sizes", "strides", "element_strides"):
            yield from ((f"{key}.{i}", text) for i, text in enumerate(getattr(self, key) or ()))
        yield "swizzle", self.swizzle
        yield "l2", self.l2


class WorkOf(BaseModel):
    """The work of one launch of a probe, for a rate: expressions over macros and scalars."""

    model_config = ConfigDict(extra="forbid")
    flop: Expression | None = None
    byte: Expression | None = None


class ProbeCase(BaseModel):
    """A named case of a probe, with the expected counters and buffers."""

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
    """Input of the compiler besides macros. ``{MACRO}`` in an option is a macro's value. Folders of headers are
    relative to the kernel file's folder, which comes first."""

    model_config = ConfigDict(extra="forbid")
    options: list[str] = Field(default_factory=list)
    include: list[str] = Field(default_factory=list)


def _unit() -> list[Expression]:
    """Return the default geometry: one block, one thread."""
    return [1]


def _member(argument: Any, depth: int = 0) -> Any:
    """Return an argument of front matter: a list is a struct, ``{i64: lda}`` a member of it."""
    if isinstance(argument, list):
        return tuple(_member(part, depth + 1) for part in argument)
    if isinstance(argument, dict) and depth and len(argument) == 1:
        ((dtype, value),) = argument.items()
        if dtype in MEMBERS and isinstance(value, str | int | float):
            return Typed(dtype, value)
    if isinstance(argument, dict) or (depth and not isinstance(argument, str | int | float | None)):
        raise ValueError(
            f"a name, a number, null, a list, or {{TYPE: VALUE}} of {', '.join(MEMBERS)}"
        )
    return argument


class Launched(BaseModel):
    """The keys of one launch."""

    model_config = ConfigDict(extra="forbid")
    block: list[Expression] = Field(
        default_factory=_unit, description="threads of a block, one to three expressions"
    )
    grid: list[Expression] = Field(
        default_factory=_unit,
        description="blocks of the grid, one to three expressions; blocks also with a cluster",
    )
    cluster: list[Expression] | None = Field(
        None, description="thread blocks of a cluster, at most 16"
    )
    shared_bytes: Expression = Field(0, description="dynamic shared memory of a block")
    arguments: list[Expression | bool | Typed | tuple[Any, ...] | None] = Field(
        default_factory=list, description="in the kernel's order, see below"
    )

    @field_validator("arguments", mode="before")
    @classmethod
    def _structs(cls, arguments: Any) -> Any:
        return (
            [_member(argument) for argument in arguments]
            if isinstance(arguments, list)
            else arguments
        )


class SeriesLaunch(Launched):
    """A launch of a series; all kernels of the series are in the file."""

    entry: str = Field(description="the `__global__` function of this launch")


class FrontMatter(Launched):
    """The YAML block at the top of a kernel file."""

    title: str = Field(description="one line")
    operation: str = Field(
        description="what the kernel computes: `matmul`, `batched_matmul`, `block_scaled_matmul`, `copy`, `transpose`, "
        "`reduction`, `softmax`, `vector_add`, `reverse`, `probe`, or a user-defined operation"
    )
    follows: str | None = Field(None, description="the rung before")
    idea: str = Field("", description="text, for files without a comment")
    provider: Provider | None = Field(
        None, description="who runs it; required in a `.yaml` file without `cubin`"
    )
    dtypes: dict[str, str] = Field(
        default_factory=dict,
        description="of each array, and `accumulate`: f64 f32 tf32 f16 bf16 e4m3 e5m2 i8 i32 u32, f22 for FP8 sums of "
        "the tensor cores; or an expression over macros",
    )
    layouts: dict[str, str] = Field(
        default_factory=dict, description="`row` (default) or `col` of each matrix"
    )
    strides: dict[str, Expression] = Field(
        default_factory=dict,
        description="of padded memory: `lda`, `ldb`, `ldc`, in a batch `stride_a` and so on",
    )
    macros: dict[str, list[Scalar]] = Field(
        default_factory=dict,
        description="name: list of values; the first is the default. The compiler gets `-DNAME=value`",
    )
    where: list[str] = Field(
        default_factory=list, description="conditions that a combination of macros must meet"
    )
    let: dict[str, Expression] = Field(
        default_factory=dict, description="named expressions; each may use the ones before it"
    )
    tile: list[Expression] | None = Field(
        None, description="output rows, output columns and k step of a block"
    )
    working_blocks: Expression | None = Field(
        None, description="blocks that have work, if fewer than the grid"
    )
    programmatic: Expression = Field(
        0,
        description="1: a launch may begin before the one before it ends. The kernel waits by `griddepcontrol.wait` "
        "before it reads or writes global memory",
    )
    requires: dict[str, Any] = Field(
        default_factory=dict,
        description="`arch` (compute capability times ten), divisors of sizes (`n: 8`), `conditions`",
    )
    architecture_specific: bool = Field(
        False, description="`true`: compiled for sm_90a instead of sm_90 (wgmma, setmaxnreg)"
    )
    entry: str | None = Field(
        None,
        description="name of the `__global__` function, by default the file's; with `<` or `::` a template that NVRTC "
        "instantiates",
    )
    compiler: Compiler = Field(
        default_factory=Compiler,
        description="`options` of NVRTC, `include` folders of headers; `{MACRO}` in an option is its value",
    )
    cubin: str | None = Field(
        None,
        description="file that something else compiled; `{MACRO}` in its name ([wrapping.md](wrapping.md))",
    )
    buffers: dict[str, DeclaredBuffer] = Field(
        default_factory=dict,
        description="scratch memory: `dtype` and `size`; `zeroed: true` is zero before the first launch, and each launch "
        "must leave it so",
    )
    tensor_maps: dict[str, DeclaredTensorMap] = Field(
        default_factory=dict, description="TMA descriptors, see below"
    )
    launches: list[SeriesLaunch] = Field(
        default_factory=list, description="several launches that are one case, see below"
    )
    reads_c: bool = Field(
        False,
        description="`true`: C is read even where beta is 0, so its check gives it numbers instead of NaN",
    )
    flop_rate: float | None = Field(
        None, gt=0, description="of CPU kernels: FLOP/s that are surely reached"
    )
    work: WorkOf | None = Field(None, description="of probes: `flop` and `byte` of a launch")
    cases: dict[str, ProbeCase] = Field(
        default_factory=dict,
        description="of probes: values, scalars and what is expected (`kernels/probes/shared_access.cu`)",
    )


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
        """The kernel that is launched; of several, the leading one."""
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
        """Index of the leading launch, the first of `entry`."""
        return [entry for entry, _ in self.launches].index(self.entry)

    @property
    def front_lines(self) -> int:
        """Number of lines up to the end of front matter: all of them in a file that has nothing else."""
        lines = self.text.splitlines()
        if self.path.suffix not in FENCES:
            return len(lines)
        _, closing, _ = FENCES[self.path.suffix]
        return next((at for at, line in enumerate(lines, 1) if closing in line), 0)

    def marked(self, mark: str) -> dict[str, str]:
        """Return the keys of front matter whose line has a comment that begins with ``mark``, and its rest."""
        head = self.text.splitlines()[: self.front_lines]
        matches = (re.match(rf"(\w+):.*  # {mark}\b(.*)", line) for line in head)
        return {match[1]: match[2] for match in matches if match}

    @cached_property
    def folders(self) -> tuple[Path, ...]:
        """Folders that are searched for its headers, in order: its folder, those that front matter names, and
        for Tilewave's kernels the shared one."""
        folder = self.path.parent
        shared = (parent / HEADERS for parent in (folder, folder.parent) if has_parts(parent))
        return folder, *(folder / name for name in self.front.compiler.include), *shared

    @cached_property
    def chosen(self) -> dict[str, Any]:
        """Cache of the variants that blocks of a config choose (`pipeline.cases`): many choose the same."""
        return {}

    @cached_property
    def names_used(self) -> dict[str, frozenset[str]]:
        """Cache: expression -> the names that it uses, also through `let`."""
        return {}

    @cached_property
    def headers(self) -> dict[str, str]:
        """Name -> text of the headers in `folders` that it includes, directly or not. They are read once."""
        return includes.kernel_headers(self.text, *self.folders)

    def compiler_options(self, macros: Mapping[str, Any]) -> list[str]:
        """Return the compiler's options from front matter, with macros filled in.

        Raises UserError for an option that a kernel may not set, or that uses an unknown macro.
        """
        options = []
        for option in self.front.compiler.options:
            key = "compiler.options"
            option = self.formatted(key, option, macros)
            if SET_ELSEWHERE.match(option):
                remedy = "Remove it: the target sets the architecture, `compiler: include` the folders of headers"
                problem = f"{key}: a kernel may not set {option}, nor name other files"
                raise UserError.because(self.path, problem, remedy, key)
            options.append(option)
        return options

    def formatted(self, key: str, text: str, macros: Mapping[str, Any]) -> str:
        """Fill macros in braces into a text of front matter, without widths or attributes.

        Raises UserError for anything else in braces.
        """
        try:
            parts = [*string.Formatter().parse(text)]
            if any(style or conversion for _, _, style, conversion in parts):
                raise ValueError("a format")
            return "".join(
                literal + ("" if name is None else str(macros[name]))
                for literal, name, _, _ in parts
            )
        except (KeyError, ValueError) as error:
            names = ", ".join(f"{{{name}}}" for name in macros)
            remedy = f"Allowed in braces: {names}" if names else "Remove the braces"
            problem = f"{key}: {text} names no macro of this kernel in braces"
            raise UserError.because(self.path, problem, remedy, key) from error


def _split(path: Path, text: str) -> tuple[str, str | None]:
    """Return front matter and the provider that the kind of file implies. Raises NoKernel without front matter."""
    if path.suffix == ".yaml":
        if OPERATION.search(text):
            return text, None
        problem = "the file has no key operation, so it is no kernel file"
        raise NoKernel.because(path, problem, "Add the keys title and operation", "operation")
    opening, closing, provider = FENCES[path.suffix]
    start = text.find(opening)
    end = text.find(closing, start + len(opening))
    if start < 0 or end < 0 or text[:start].strip():
        remedy = f"Begin it with front matter between {opening} and {closing}"
        if path.suffix == ".cu":
            remedy += f", which `tilewave wrap {relative(path)}` writes"
        raise NoKernel.because(path, "the file has no front matter", remedy, "line 1")
    return text[start + len(opening) : end], provider


def load_kernel(path: Path) -> Kernel:
    """Read one kernel file.

    Raises KernelRefused for a file that may not be read (see `files.content`) or is too long, NoKernel for
    one without front matter, UserError for a mistake in its front matter.
    """
    try:
        text = files.text(path)
    except KernelRefused:
        raise
    except UserError as error:
        if path.suffix in FENCES and FENCES[path.suffix][0].encode() in files.content(path):
            raise
        raise error.moved(path, kind=NoKernel) from error
    block, implied = _split(path, text)
    if len(block) > MOST_FRONT:  # libyaml ends the process where lists are nested 25,000 times
        problem = f"front matter has {len(block)} characters, more than {MOST_FRONT}"
        raise KernelRefused.because(path, problem, "Make it shorter", "front matter")
    try:
        data = yaml_of(block)
    except NoYaml as error:
        raise error.moved(path, "front matter: ", UserError) from error
    front = validated(FrontMatter, mapping(data, path, "front matter"), path)
    if front.operation not in operations.names():
        raise UserError(path, "operation", front.operation, operations.names())
    _check_macros(path, front.macros)
    series = [launch.entry for launch in front.launches]
    if series and front.entry not in (None, *series):
        raise UserError(path, "entry", front.entry, series)
    if front.cubin is not None:
        if implied is not None:
            problem = "a file that is compiled names a cubin too"
            raise UserError.because(path, problem, "Move the front matter to a .yaml file", "cubin")
        implied = "nvrtc"
    if implied is not None and front.provider not in (None, implied):
        raise UserError(path, "provider", front.provider, [implied])
    if front.provider is None:
        if implied is None:
            raise UserError(path, "provider", None, "cublaslt or cpu, or a `cubin`")
        front = front.model_copy(update={"provider": implied})
    return Kernel(path, front, text)


def _check_macros(path: Path, macros: Mapping[str, Sequence[Scalar]]) -> None:
    """Check that names suit the preprocessor, and names and values a file name. Raises UserError."""
    combinations = 1
    for name, values in macros.items():
        if not MACRO.fullmatch(name):
            problem = f"macros: {shown(name)} is no name of a macro"
            raise UserError.because(path, problem, "Use letters, digits and _", "macros")
        if not values or len(set(map(str, values))) != len(values):
            raise UserError(path, f"macros.{name}", values, "a list of different values")
        for value in values:
            if not VALUE.fullmatch(str(value)):
                raise UserError(path, f"macros.{name}", value, VALUES)
        combinations *= len(values)
        if combinations > MOST_VARIANTS:
            key = f"macros.{name}"
            problem = f"{key} makes {combinations} combinations, more than {MOST_VARIANTS}"
            raise KernelRefused.because(path, problem, "List fewer values", key)
    longest = sum(
        len(name) + max(len(str(value)) for value in values) + 1 for name, values in macros.items()
    )
    if len(path.stem) + longest > MOST_NAME:
        length = len(path.stem) + longest
        problem = (
            f"macros: a variant's name has {length} characters together, more than {MOST_NAME}"
        )
        raise UserError.because(path, problem, "Shorten names or values", "macros")


def _check_name(path: Path) -> None:
    """Check that a file's name can be a kernel's. Raises NoKernel."""
    if not NAME.fullmatch(path.stem) or path.stem == "all":
        problem = f"the file name {shown(path.stem)} is no name of a kernel"
        remedy = "Use a lower-case letter, then lower-case letters, digits and _; not `all`"
        if path.suffix == ".cu":
            remedy += f". Or `tilewave wrap {relative(path)}` writes a file that includes this one"
        raise NoKernel.because(path, problem, remedy, "file name")


def line_of(text: str, key: str) -> int:
    """Return the line of front matter that holds the first part of a key; 1 where none does."""
    first = re.escape(key.partition(".")[0])
    match = re.search(rf"""^\s*["']?{first}["']?\s*:""", text, re.MULTILINE)
    at = re.search(r"\bline (\d+)$", key)
    return int(at[1]) if at else text.count("\n", 0, match.end()) + 1 if match else 1


def spared(path: Path, folders: Sequence[Path]) -> bool:
    """Return whether a run skips a kernel file that has a mistake: it lies in a user's folder."""
    return path not in folders and not is_shipped(path)


def kernel_files(folder: Path) -> list[Path]:
    """Return the files of a folder of kernels by name. In one laid out as Tilewave's, those of its parts follow.

    A kernel file stands for itself.
    """
    if not folder.is_dir():
        return [folder]
    parts = [folder / part for part in PARTS] if has_parts(folder) else []
    return [path for part in (folder, *parts) for path in sorted(part.iterdir())]


def find_kernels(
    folders: Iterable[Path], left_out: dict[str, UserError] | None = None
) -> dict[str, Kernel]:
    """Return all kernels of the folders by name, in the order of folders and file names.

    A kernel file among the folders stands for itself. left_out: gets, by name, why a file was skipped: it
    cannot be read, or it is `spared` and no kernel file, or its front matter has a mistake. Without
    ``left_out`` that is raised. Raises UserError for a missing folder and for two files of one name.
    """
    kernels: dict[str, Kernel] = {}
    folders = list(folders)
    for folder in folders:
        if not folder.exists():
            problem = f"kernel_folders: {folder} does not exist"
            remedy = "Correct the path, or make the folder"
            raise UserError.because("config", problem, remedy, "kernel_folders")
        for path in kernel_files(folder):
            if path.suffix not in SUFFIXES or path.name.startswith((".", "_")):
                continue
            try:
                _check_name(path)
                kernel = load_kernel(path)
            except UserError as error:
                unread = isinstance(error, KernelRefused) and not isinstance(error, NoKernel)
                of_kernel = error.where_file == str(path)  # not a mistake in a folder of operations
                if left_out is None or not of_kernel or not (unread or spared(path, folders)):
                    raise
                if not isinstance(error, KernelRefused):
                    error.at(line_of(path.read_text("utf-8", "replace"), error.key))
                left_out[path.name if path.stem in left_out else path.stem] = error
                continue
            if kernel.name in kernels:
                problem = f"{relative(kernels[kernel.name].path)} has the same name"
                raise UserError.because(path, problem, "Rename one of the two files", "file name")
            kernels[kernel.name] = kernel
    if left_out:
        _settle(left_out, kernels)
    return kernels


def _settle(left_out: dict[str, UserError], kernels: Mapping[str, Kernel]) -> None:
    """Remove the files that a kernel includes from ``left_out``, and name those of a kernel's name with suffix.

    Kernels that `tilewave wrap` writes include such files.
    """
    texts = (kernel.text for kernel in kernels.values() if kernel.provider == "nvrtc")
    included = {Path(name).name for text in texts for _, name in includes.INCLUDE.findall(text)}
    for name, why in list(left_out.items()):
        file = Path(why.where_file).name
        if isinstance(why, NoKernel) and file in included:
            del left_out[name]
        elif name in kernels:
            left_out[file] = left_out.pop(name)


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
                digest = hashlib.sha256(files.content(path, MOST_CUBIN)).hexdigest()
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
    """Return the digest of a host kernel without comments and the docstring of front matter.

    The tree is unparsed, because its dump differs between versions of Python.
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
    """Return the kernel's idea in paragraphs: the front matter's `idea`, else the comment that follows it."""
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
