"""The config: a typed model, its loading, and its errors, which name the file, the key and what to do.
``config/config.yaml`` is the full study, ``config/smoke.yaml`` the small one."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt

from tilewave.basics.errors import UserError
from tilewave.basics.paths import place
from tilewave.basics.validation import Described, NoYaml, check_data, validated
from tilewave.kernel.launches import Provider

MOST_CASES = 20_000
"""Limit of sizes, shapes and combinations of a block."""
MOST_LISTED = 2 * MOST_CASES
"""Limit of a plan's cases, counted once for each study that names them."""
MOST_ITEMS = 1000
"""Limit of any list and mapping in the config."""
LARGEST_SIZE = 2**40
"""Limit of one dimension: no GPU holds a byte for each element."""
LARGEST_SHAPE = 2**62
"""Limit of a shape's sizes multiplied: no GPU does this much in a day, and twice as much fits 64 bits."""
DAY = 86_400.0

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
Text = Annotated[str, Field(max_length=200)]
FileName = Annotated[str, Field(min_length=1, max_length=1000)]
Texts = Annotated[list[Text], Field(max_length=MOST_ITEMS)]
FileNames = Annotated[list[FileName], Field(max_length=MOST_ITEMS)]
Size = Annotated[StrictInt, Field(ge=1, le=LARGEST_SIZE)]
Seconds = Annotated[float, Field(gt=0, le=DAY)]
Millimetres = Annotated[float, Field(ge=60, le=400)]
Points = Annotated[float, Field(ge=4, le=24)]
MetricSet = Literal[
    "flops", "cycles", "basic", "traffic", "memory", "paths", "quantization", "limits", "full"
]


class Model(Described, BaseModel):
    """Keys of the config. config.yaml beside this file describes them, for messages and config/schema.json."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class Range(Model):
    """A sweep of one dimension: from, to (included) and step."""

    start: Size = Field(alias="from")
    stop: Size = Field(alias="to")
    step: Size


class CaseBlock(Model):
    """Variants and the shapes they meet."""

    kernels: Texts | Text = "all"
    without: Texts = []
    operation: Text = "matmul"
    macros: Text | Annotated[dict[Text, Any], Field(max_length=MOST_ITEMS)] = "each_dtype"
    dtypes: Texts = []
    shapes: Annotated[list[Size | Text | dict[Text, Any]], Field(max_length=MOST_ITEMS)] = []
    providers: Annotated[list[Provider], Field(max_length=3)] = []
    most: int | None = Field(None, ge=1, le=MOST_CASES)
    time: bool | None = None
    tune: bool | None = None
    counters: MetricSet | Literal["none"] | None = None
    execute: bool | None = None


class Study(Model):
    """A question with its cases and its figure."""

    plot: Text
    title: Text
    question: str = Field("", max_length=1000)
    time: bool = False
    tune: bool = False
    counters: MetricSet | Literal["none"] = "none"
    execute: bool = False
    cases: list[CaseBlock] = Field(min_length=1, max_length=MOST_ITEMS)
    options: Annotated[dict[Text, Any], Field(max_length=MOST_ITEMS)] = {}

    @property
    def tunes(self) -> bool:
        """True if all of its cases are tuned; a study with a few tuning runs is about something else."""
        return self.tune or all(block.tune for block in self.cases)


class Timing(Model):
    """Settings of a timing."""

    block_ms: float = Field(2.0, ge=0.01, le=10_000)
    rounds: int = Field(5, ge=1, le=10_000)
    case_limit_s: Seconds = 5.0


class Check(Model):
    """Settings of a check."""

    case_limit_s: Seconds = 20.0


class Counters(Model):
    """Settings of Nsight Compute."""

    clock_control: Literal["none", "base"] = "none"
    cache_control: Literal["all", "none"] = "all"
    case_limit_s: Seconds = 20.0


class Execute(Model):
    """Settings of executing machine code on the CPU."""

    when: Literal["no_gpu", "always", "never"] = "no_gpu"
    case_limit_s: Seconds = 10.0


class StyleOptions(Model):
    """The look of the figures."""

    width_mm: Millimetres = 178.0
    font_size: Points = 8.0


class Output(Model):
    """The folders of results and report."""

    results: FileName = "results"
    reports: FileName = "reports"


NameList = (
    Size
    | Annotated[str, Field(max_length=10_000)]
    | Annotated[list[Size | Text], Field(max_length=MOST_ITEMS)]
)
"""Type of a key that the command line may set; `parameters.split_names` splits it."""


class Config(Model):
    """The whole config."""

    target: Text = "auto"
    architectures: list[Annotated[str, Field(pattern=r"^(auto|sm_[0-9]{2,3}[af]?)$")]] = Field(
        ["auto"], min_length=1, max_length=100
    )
    kernel_folders: Annotated[FileNames, Field(min_length=1)] = ["kernels"]
    operation_folders: FileNames = []
    plot_folders: FileNames = []
    gpu: int = Field(0, ge=0, le=1023)
    only: NameList = ""
    shapes: NameList = ""
    strict: bool | Literal["release"] = False
    seed: int = Field(1, ge=0, lt=2**32)
    fresh: bool = False
    timing: Timing = Timing()
    check: Check = Check()
    counters: Counters = Counters()
    execute: Execute = Execute()
    style: StyleOptions = StyleOptions()
    output: Output = Output()
    studies: dict[Name, Study] = Field(min_length=1, max_length=MOST_ITEMS)
    parts: Annotated[dict[Name, Texts], Field(max_length=MOST_ITEMS)] = {}


def parse(data: Mapping[str, Any], where_file: object) -> Config:
    """Return the config from plain data. Raises UserError for unknown keys and values out of range."""
    try:
        check_data(data)
    except NoYaml as error:
        raise error.moved(where_file, kind=UserError) from error
    return validated(Config, data, where_file)


def json_schema() -> str:
    """Return the JSON Schema of the config, for editors and for config/schema.json."""
    return json.dumps(Config.model_json_schema(), indent=2) + "\n"


def check_folders(config: Config, kind: str, where_file: object, root: Path) -> list[Path]:
    """Return the folders of a kind as paths; one kernel file may stand for a folder of kernels. Raises UserError."""
    folders = []
    for index, folder in enumerate(getattr(config, kind)):
        path = place(folder, root)
        # os.path, unlike pathlib, raises for no name, however long.
        if not (os.path.isdir(path) or (kind == "kernel_folders" and os.path.isfile(path))):
            raise UserError(where_file, f"{kind}.{index}", folder, "a folder that exists")
        if not os.access(path, os.R_OK):
            raise UserError(where_file, f"{kind}.{index}", folder, "a folder that can be read")
        folders.append(path)
    return folders
