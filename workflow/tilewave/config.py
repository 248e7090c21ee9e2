"""The config: a typed model, its loading and its errors.

``config/config.yaml`` is the full study, ``config/smoke.yaml`` the small one. Every mistake is a
UserError that names the file, the key, what was found and what is allowed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt, ValidationError

from tilewave.errors import UserError
from tilewave.home import place
from tilewave.validation import first_problem, key_twice

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
MetricSet = Literal["flops", "basic", "traffic", "memory", "quantization", "limits", "full"]


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Range(Model):
    """A sweep of one dimension: from, to (included) and step."""

    start: int = Field(alias="from", gt=0)
    stop: int = Field(alias="to", gt=0)
    step: int = Field(gt=0)


class CaseBlock(Model):
    """Which variants meet which shapes."""

    kernels: list[str] | str = Field(
        "all", description="Kernel names, or `all` of the block's operation (new files included)."
    )
    operation: str = Field("matmul", description="What `all` selects.")
    macros: str | dict[str, Any] = Field(
        "each_dtype",
        description="`defaults`, `each_dtype` (the plainest variant of every dtype), "
        "`one_at_a_time`, `product`, or a mapping of macros to a value or list.",
    )
    dtypes: list[str] = Field(
        default_factory=list, description="Keep only variants with these dtype labels."
    )
    shapes: list[StrictInt | str | dict[str, Any]] = Field(
        default_factory=list,
        description="4096; `512x256x128`; or a mapping of dimensions to a number, an expression "
        "over `sms`, a list, or {from, to, step}. Probes bring their own cases.",
    )
    providers: list[Literal["nvrtc", "cublaslt", "cpu"]] = Field(
        default_factory=list, description="Keep only kernels that one of these runs."
    )
    most: int | None = Field(
        None,
        ge=1,
        description="Leave out the kernels of which the block would take more variants than this.",
    )
    time: bool | None = Field(None, description="Overrides the study's `time` for this block.")
    tune: bool | None = Field(None, description="Overrides the study's `tune` for this block.")
    counters: MetricSet | Literal["none"] | None = Field(
        None, description="Overrides the study's `counters` for this block."
    )
    execute: bool | None = Field(
        None, description="Overrides the study's `execute` for this block."
    )


class StudyStyle(Model):
    """What a study's figure has otherwise than the others; what is not set is as `style` says."""

    width_mm: float | None = Field(None, ge=60, le=400)
    font_size: float | None = Field(None, ge=4, le=24)
    bare: bool | None = None


class Study(Model):
    """A question with its cases and its figure."""

    plot: str = Field(description="Module of tilewave.plots that draws it.")
    title: str
    question: str = ""
    time: bool = Field(False, description="Time the cases with CUDA events.")
    tune: bool = Field(
        False,
        description="Race the matrix products of one shape and dtype against each other, with "
        "early elimination.",
    )
    counters: MetricSet | Literal["none"] = Field(
        "none", description="Metric set to collect under Nsight Compute."
    )
    execute: bool = Field(
        False, description="Execute the cases' machine code on the CPU, beside what is measured."
    )
    cases: list[CaseBlock] = Field(min_length=1)
    options: dict[str, Any] = Field(default_factory=dict, description="Handed to the plot module.")
    style: StudyStyle = StudyStyle()


class Timing(Model):
    """How a case is timed."""

    block_ms: float = Field(2.0, gt=0, description="Length of one block of gated launches.")
    rounds: int = Field(5, ge=1, description="Rounds of A B B A, the baseline paired.")
    case_limit_s: float = Field(
        5.0, gt=0, description="A case predicted to take longer is not timed."
    )


class Check(Model):
    """How a case is checked."""

    case_limit_s: float = Field(20.0, gt=0, description="A check that takes longer is timed out.")


class Counters(Model):
    """How Nsight Compute is run."""

    clock_control: Literal["none", "base"] = "none"
    cache_control: Literal["all", "none"] = "all"
    case_limit_s: float = Field(20.0, gt=0, description="Longest time for one case under ncu.")


class Execute(Model):
    """When the CPU executes the kernels' machine code."""

    when: Literal["no_gpu", "always", "never"] = Field(
        "no_gpu",
        description="`no_gpu`: where there is no GPU, the cases without a recorded figure; "
        "`always`: every case; `never`. Studies with `execute: true` are executed unless `never`.",
    )
    case_limit_s: float = Field(
        10.0, gt=0, description="A case that would take longer on one core is not executed."
    )
    baseline: str | None = Field(
        None, description="A CSV of each case's shared-memory excess, which a run must reproduce."
    )


class Style(Model):
    """Look of the figures."""

    width_mm: float = Field(178.0, ge=60, le=400, description="178 two columns, 86 one column.")
    font: str = "DejaVu Sans"
    font_size: float = Field(8.0, ge=4, le=24)
    narrow_mm: float = Field(
        86.0,
        ge=60,
        le=400,
        description="Of the second file of each figure, for a column or a phone.",
    )
    bare: bool = Field(
        False,
        description="Leave title, notes and sources out of the figures: the captions beside them have "
        "them.",
    )


class Output(Model):
    """Where results and the report go."""

    results: str = "results"
    reports: str = "reports"


class Config(Model):
    """The whole config."""

    target: str = Field(
        "auto",
        description="`auto`: this GPU, else the recorded one; `live`: this GPU only; or the name "
        "of a folder in resources/recorded.",
    )
    architectures: list[Annotated[str, Field(pattern=r"^(auto|sm_\d+[af]?)$")]] = Field(
        default_factory=lambda: ["auto"], min_length=1
    )
    kernel_folders: list[str] = Field(default_factory=lambda: ["kernels"], min_length=1)
    operation_folders: list[str] = Field(
        default_factory=list, description="Where operations of your own are; their code is run."
    )
    plot_folders: list[str] = Field(
        default_factory=list, description="Where plot modules of your own are; their code is run."
    )
    gpu: int = Field(0, ge=0, description="Index among the GPUs that CUDA_VISIBLE_DEVICES shows.")
    gpus: Literal["all"] | Annotated[list[StrictInt | str], Field(min_length=1)] | None = Field(
        None,
        description="Several GPUs that share the measuring: `all` that are visible, or a list of "
        "indices among them or UUIDs. In place of `gpu`.",
    )
    only: StrictInt | str | list[StrictInt | str] = Field(
        "", description="Words that narrow the run: parts, studies, kernels, dtypes, shapes."
    )
    strict: bool | Literal["release"] = Field(
        False,
        description="true: fail after the page if a case is wrong or failed; "
        "release: also if a recorded figure is stale.",
    )
    seed: int = Field(1, ge=0)
    fresh: bool = Field(
        False,
        description="Compile and execute here, whatever is recorded: so that a recording hides no "
        "broken compiler.",
    )
    timing: Timing = Field(default_factory=Timing)
    check: Check = Field(default_factory=Check)
    counters: Counters = Field(default_factory=Counters)
    execute: Execute = Field(default_factory=Execute)
    style: Style = Field(default_factory=Style)
    output: Output = Field(default_factory=Output)
    studies: dict[Name, Study] = Field(min_length=1)
    parts: dict[Name, list[str]] = Field(
        default_factory=dict,
        description="Names for groups of studies, each a word of `only`: parts of a long run.",
    )


def _allowed_keys(location: tuple[Any, ...]) -> Any:
    """Field names allowed where an unknown key was found."""
    model: Any = Config
    for part in location[:-1]:
        if isinstance(part, int) or (model is Study and part == "cases"):
            model = CaseBlock if model is Study else model
            continue
        sections = {
            "timing": Timing,
            "check": Check,
            "counters": Counters,
            "execute": Execute,
            "style": Style,
            "output": Output,
        }
        if model is Config and part == "studies":
            model = dict
        elif model is dict:
            model = Study
        elif model is Config and part in sections:
            model = sections[part]
    return getattr(model, "model_fields", "the keys of config/README.md")


def parse(data: Mapping[str, Any], where_file: object) -> Config:
    """The config from plain data.

    Raises UserError for unknown keys and values out of range.
    """
    try:
        return Config.model_validate(dict(data))
    except ValidationError as error:
        location, detail = first_problem(error, data)
        key = ".".join(str(part) for part in location)
        if detail["type"] == "extra_forbidden":
            raise UserError(where_file, key, location[-1], _allowed_keys(location)) from error
        if detail["type"] == "missing":
            raise UserError(where_file, key, None, "a value: the key is required") from error
        raise UserError(where_file, key, detail.get("input"), detail["msg"]) from error


def check_file(path: Path, where_file: object) -> None:
    """Refuse a config file in which a key stands twice: Snakemake has read only the last one.

    Raises UserError.
    """
    try:
        twice = key_twice(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return  # what cannot be read so was not read by Snakemake either, and it has said so
    if twice:
        raise UserError(where_file, twice, "the key twice", "each key once")


def words(only: int | str | list[int | str]) -> list[str]:
    """The words of ``only``: a list, or text parted by commas or blanks, or one number."""
    if isinstance(only, list):
        return [str(word) for word in only]
    return [word for word in re.split(r"[,\s]+", str(only)) if word]


def json_schema() -> str:
    """JSON Schema of the config, for editors and for config/schema.json."""
    return json.dumps(Config.model_json_schema(), indent=2) + "\n"


def check_folders(config: Config, kind: str, where_file: object, root: Path) -> list[Path]:
    """The folders of ``kernel_folders`` or of another kind as paths (see `home.place`); one kernel file may
    stand for a folder of kernels.

    Raises UserError for one that does not exist.
    """
    folders = []
    for index, folder in enumerate(getattr(config, kind)):
        path = place(folder, root)
        if not (path.is_dir() or (kind == "kernel_folders" and path.is_file())):
            raise UserError(where_file, f"{kind}.{index}", folder, "a folder that exists")
        folders.append(path)
    return folders
