"""Kernel files: one file is one kernel, and its front matter holds all that a launch needs."""

import itertools
import re
import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from tilewave.basics import files
from tilewave.basics.errors import KernelRefused, NoKernel, UserError, shown
from tilewave.basics.paths import HEADERS, has_parts, relative
from tilewave.basics.validation import Described, NoYaml, mapping, validated, yaml_of
from tilewave.kernel import includes, operations
from tilewave.kernel.expressions import Expression, Names
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
MOST_NAME = 200
"""Limit of a variant's part of a file name, in bytes: usual file systems allow 255."""
MOST_VARIANTS = 100_000
"""Limit of the combinations of a kernel's macros: a study may look at all of them."""


class _Keys(Described, BaseModel):
    """Keys of front matter. front_matter.yaml describes them, for messages and docs/front_matter.md."""

    model_config = ConfigDict(extra="forbid")


class DeclaredBuffer(_Keys):
    """A probe's buffer, or scratch memory of another operation.

    A probe's buffer without ``expect``, ``report`` and case values is unchecked output. Scratch memory lies
    beside the operands and is not read afterwards. ``zeroed`` memory is zero before the first launch, and
    every launch must leave it so.
    """

    dtype: str
    size: Expression
    expect: Expression | None = None
    report: dict[str, str] | None = None
    zeroed: bool = False


class DeclaredTensorMap(_Keys):
    """A tensor map (TMA descriptor) of an operand or scratch memory; lists have the contiguous dimension first."""

    of: str
    box: list[Expression] = Field(min_length=RANKS[0], max_length=RANKS[-1])
    sizes: list[Expression] | None = None
    strides: list[Expression] | None = None
    element_strides: list[Expression] | None = None
    swizzle: Expression = 0
    l2: Expression = 128

    @property
    def expressions(self) -> Iterator[tuple[str, Expression]]:
        for key in ("box", "sizes", "strides", "element_strides"):
            yield from ((f"{key}.{i}", text) for i, text in enumerate(getattr(self, key) or ()))
        yield "swizzle", self.swizzle
        yield "l2", self.l2


class WorkOf(_Keys):
    """The work of one launch of a probe, for a rate: expressions over macros and scalars."""

    flop: Expression | None = None
    byte: Expression | None = None


class ProbeCase(_Keys):
    """A named case of a probe, with the expected counters and buffers."""

    macros: dict[str, Scalar] = {}
    values: dict[str, Expression] = {}
    sizes: dict[str, Expression] = {}
    scalars: dict[str, Expression] = {}
    expect: dict[str, float] = {}
    claimed: dict[str, float] = {}
    instruction: str | None = None
    status: str = "ok"
    finds: Literal["", "race", "uninitialised read", "barrier"] = ""
    limit_s: float | None = Field(None, gt=0)
    note: str = ""


class Compiler(_Keys):
    """Input of the compiler besides macros. ``{MACRO}`` in an option is a macro's value. Folders of headers are
    relative to the kernel file's folder, which comes first. constants: values of ``__constant__`` memory, or of
    macros and constants instead of the file's."""

    options: list[str] = []
    include: list[str] = []
    constants: dict[str, str] = {}

    def filled(self, text: str, near: str = "") -> str:
        """Return a text whose constants have these values. near: other texts, which may define what is ``extern`` here."""
        for name, values in self.constants.items():
            number = rf"(^[ \t]*#[ \t]*define[ \t]+{name}[ \t]+|\bconst(?:expr)? [^;=()]*?\b{name}\s*=)[^;,\n]*"
            text = re.sub(number, rf"\g<1>{values} ", text, flags=re.MULTILINE)
            memory = rf"__constant__[^;={{]*?\b{name}\b\s*(?:\[[^\]]*\]\s*)*(?=[;,])"
            defined, extern = rf"(?<!extern ){memory}", rf"extern ({memory})"
            declared = re.search(defined, text)
            if not (declared or re.search(defined, near)):
                text = re.sub(extern, r"\1", text)
                declared = re.search(defined, text)
            end = declared.end() if declared else 0
            text = f"{text[:end]} = {{{values}}}{text[end:]}" if declared else text
        return text


def _member(argument: Any, depth: int = 0) -> Any:
    """Return an argument of front matter: a list is a struct, ``{i64: lda}`` a member of it."""
    if isinstance(argument, list):
        return tuple(_member(part, depth + 1) for part in argument)
    if isinstance(argument, dict) and depth and len(argument) == 1:
        ((dtype, value),) = argument.items()
        if dtype in MEMBERS and isinstance(value, str | int | float):
            return Typed(dtype, value)
    if isinstance(argument, dict) or (depth and not isinstance(argument, str | int | float | None)):
        types = ", ".join(MEMBERS)
        raise ValueError(f"a name, a number, null, a list, or {{TYPE: VALUE}} of {types}")
    return argument


class Launched(_Keys):
    """The keys of one launch."""

    block: list[Expression] = [1]
    grid: list[Expression] = [1]
    cluster: list[Expression] | None = None
    shared_bytes: Expression = 0
    arguments: list[Expression | bool | Typed | tuple[Any, ...] | None] = []

    @field_validator("arguments", mode="before")
    @classmethod
    def _structs(cls, arguments: Any) -> Any:
        return list(map(_member, arguments)) if isinstance(arguments, list) else arguments


class SeriesLaunch(Launched):
    """A launch of a series; all kernels of the series are in the file."""

    entry: str


class FrontMatter(Launched):
    """The YAML block at the top of a kernel file."""

    title: str
    operation: str
    follows: str | None = None
    idea: str = ""
    provider: Provider | None = None
    dtypes: dict[str, str] = {}
    layouts: dict[str, str] = {}
    strides: dict[str, Expression] = {}
    macros: dict[str, list[Scalar]] = {}
    where: list[str] = []
    let: dict[str, Expression] = {}
    tile: list[Expression] | None = None
    working_blocks: Expression | None = None
    programmatic: Expression = 0
    cooperative: bool = False
    requires: dict[str, Any] = {}
    architecture_specific: bool = False
    entry: str | None = None
    compiler: Compiler = Compiler()
    cubin: str | None = None
    buffers: dict[str, DeclaredBuffer] = {}
    tensor_maps: dict[str, DeclaredTensorMap] = {}
    launches: list[SeriesLaunch] = []
    reads_c: bool | Literal["adds"] = False
    flop_rate: float | None = Field(None, gt=0)
    work: WorkOf | None = None
    cases: dict[str, ProbeCase] = {}


@dataclass(frozen=True)
class Kernel:
    """A kernel file: where it lies, its front matter and its text. called: its name, unless that is the file's."""

    path: Path
    front: FrontMatter
    text: str
    called: str = ""

    @cached_property
    def name(self) -> str:
        return self.called or self.path.stem

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
        """Folders that are searched for its headers, in order: its folder, those that front matter names and may
        name, and for Tilewave's kernels the shared one."""
        folder = self.path.parent
        named = (folder / name for name in self.front.compiler.include)
        shared = (parent / HEADERS for parent in (folder, folder.parent) if has_parts(parent))
        return folder, *(path for path in named if includes.allowed(path, folder)), *shared

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
        texts, compiler = includes.kernel_headers(self.text, *self.folders), self.front.compiler
        near = "\n".join([self.text, *texts.values()])
        return {name: compiler.filled(text, near) for name, text in texts.items()}

    def compiler_options(self, macros: Names) -> list[str]:
        """Return the compiler's options with macros filled in. Raises UserError for one that a kernel may not set."""
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

    def formatted(self, key: str, text: str, macros: Names) -> str:
        """Fill macros in braces into a text, without widths or attributes. Raises UserError for anything else there."""
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
    """Read one kernel file. Raises UserError for a mistake in its front matter, NoKernel for a file without
    any, KernelRefused for one that may not be read (see `files.content`) or is too long."""
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
    if (provider := front.provider or implied) is None:
        raise UserError(path, "provider", None, "cublaslt or cpu, or a `cubin`")
    front = front.model_copy(update={"provider": provider})
    return Kernel(path, front, front.compiler.filled(text))


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
    lengths = {name: max(map(len, map(str, values))) for name, values in macros.items()}
    longest = sum(len(name) + length + 1 for name, length in lengths.items())
    if len(path.stem) + longest > MOST_NAME:
        length = len(path.stem) + longest
        problem = f"macros: a variant's name has {length} characters together (most: {MOST_NAME})"
        raise UserError.because(path, problem, "Shorten names or values", "macros")


def idea(kernel: Kernel) -> list[str]:
    """Return the kernel's idea in paragraphs: the front matter's `idea`, else the comment that follows it."""
    if kernel.front.idea:
        return [kernel.front.idea.strip()]
    if kernel.path.suffix not in FENCES:
        return []
    _, closing, _ = FENCES[kernel.path.suffix]
    sign = "#" if kernel.path.suffix == ".py" else "//"
    lines = map(str.strip, kernel.text.partition(closing)[2].splitlines()[1:])
    comment = itertools.takewhile(lambda line: not line or line.startswith(sign), lines)
    texts = (line.removeprefix(sign).strip() for line in comment)
    paragraphs = itertools.groupby(texts, key=bool)
    return [" ".join(paragraph) for filled, paragraph in paragraphs if filled]
