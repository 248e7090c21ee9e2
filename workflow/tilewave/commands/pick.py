"""``tilewave pick SHAPE --dtype DTYPE``: predict the fastest variant at a shape, without a GPU.

A recording holds the times of variants in races (study *best*). Four times are fitted to the races of each
variant, and give its time at any shape: the time of a launch, of a wave of blocks (full or not), of an
element that a wave loads, and of a multiply-add at the rate of all SMs together.
The answer includes its error: each raced shape is held out once, and predicted from the others.
Exit code 0: a variant is named; 1: none can run at the shape; 2: a mistake on the command line.
"""

import argparse
import functools
import itertools
import json
import math
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewave.basics.columns import columns
from tilewave.basics.errors import HERE, UserError
from tilewave.basics.paths import RECORDED, SHIPPED, place, relative
from tilewave.commands import flags
from tilewave.kernel import result
from tilewave.kernel.front_matter import Kernel, find_kernels
from tilewave.kernel.operations.matmul import Matmul
from tilewave.kernel.variants import Variant, variant
from tilewave.pipeline.compiling import Task
from tilewave.pipeline.target import device as device_of
from tilewave.records.recorded import Recorded, folders, largest_first
from tilewave.theory import quantization, splitting

SCHEMA_VERSION = 3
SHOWN = 5
"""Variants in the text."""
LEAST = 4
"""Fewest races of a variant that determine its four times."""
Sizes = tuple[int, int, int]
Work = tuple[int, int, int, int]
"""Elements that waves load (`splitting.loads`), waves of a block on each SM, multiply-adds, launches."""


def add(commands: Any) -> None:
    """Add the parser of this subcommand."""
    parser = commands.add_parser(
        "pick", help="predict the fastest variant at a shape, and its time",
        description="Predict the time of every recorded variant of a matrix product at any shape.",
    )  # fmt: skip
    parser.add_argument("shape", metavar="SHAPE", help="4096, or 2304x1920x4096 (m, n, k)")
    dtypes = "f32, f64, f16_f32, ...; f16 means f16 with an f32 sum"
    parser.add_argument("--dtype", required=True, metavar="DTYPE", help=dtypes)
    parser.add_argument(
        "--gpu", metavar="NAME",
        help=f"a GPU of {RECORDED}, or a folder of recorded figures (default: the one with the most)",
    )  # fmt: skip
    parser.add_argument(
        "--kernels", nargs="+", default=[SHIPPED], metavar="FOLDER", help=f"default: {SHIPPED}"
    )
    flags.add_operations(parser)
    parser.add_argument("--json", action="store_true", help="one JSON document instead of text")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the prediction and return the exit code. Raises UserError."""
    flags.use_operations(options)
    shape = flags.shape(options.shape, Matmul.dimensions, "SHAPE")
    for folder in options.kernels:
        if not place(folder).exists():
            raise UserError(HERE, "--kernels", folder, "a folder that exists")
    kernels = find_kernels([place(folder) for folder in options.kernels], {})
    recorded = _recorded(options.gpu)
    raced = races(recorded, kernels)
    dtypes = {racer.variant.dtype for racer in raced}
    dtype = next((name for name in (options.dtype, f"{options.dtype}_f32") if name in dtypes), None)
    if dtype is None:
        if not dtypes:
            problem = f"no race is recorded in {relative(recorded.folder)}"
            raise UserError.because(HERE, problem, "Choose another recording with --gpu")
        raise UserError(HERE, "--dtype", options.dtype, dtypes)
    raced = [racer for racer in raced if racer.variant.dtype == dtype]
    resolved = shape.resolve(raced[0].device)
    answer = document((resolved["m"], resolved["n"], resolved["k"]), raced)
    answer |= {"dtype": dtype, "recording": relative(recorded.folder)}
    answer["gpu"] = recorded.environments[recorded.main_environment]["gpu"]
    flags.show(json.dumps(answer, indent=1) if options.json else "\n".join(text(answer)))
    return 0 if answer["variants"] else 1


def _recorded(name: str | None) -> Recorded:
    """Return the named recording, or the one with the most results. Raises UserError."""
    paths = {path.name: path for path in folders(place(RECORDED))}
    if name is None:
        recorded = next(iter(largest_first(place(RECORDED))), None)
    else:
        path = paths.get(name, Path(name).expanduser())
        recorded = Recorded(path) if path.is_dir() else None
    if recorded is None:
        raise UserError(HERE, "--gpu", name, [*paths, "a folder of recorded figures"])
    if not recorded.main_environment:
        problem = f"{relative(recorded.folder)} has no environments.json with a GPU"
        raise UserError.because(HERE, problem, "Choose another recording with --gpu")
    return recorded


@dataclass(frozen=True)
class Raced:
    """A variant and its microseconds by shape, from races of one environment."""

    variant: Variant
    device: Mapping[str, Any]
    us: dict[Sizes, float] = field(default_factory=dict)

    def work(self, sizes: Sizes) -> Work | str:
        """Return the multiples of the four times in a launch, or the reason why it cannot run."""
        shape = dict(zip("mnk", sizes))
        if refused := self.variant.supports(shape, self.device):
            return refused
        plan = self.variant.plan(shape, self.device)
        if exceeded_limit := plan.exceeded_limit(self.device):
            return exceeded_limit
        if plan.tile is None:
            return "its front matter names no tile"
        dealing = splitting.of_launch(
            shape, plan.tile, plan.blocks, plan.working_blocks, plan.scratch_bytes
        )
        sms = self.device["sms"]
        loads = splitting.loads(dealing, plan.tile, sms, 1)
        waves = quantization.rounds_on_sms(dealing.blocks, sms)
        return loads, waves, math.prod(sizes), 1

    @functools.cached_property
    def rates(self) -> Mapping[Sizes, NDArray[np.float64]]:
        """The multiples of the four times in a microsecond, by raced shape."""
        work_by_shape = {sizes: self.work(sizes) for sizes in self.us}
        possible = {at: work for at, work in work_by_shape.items() if not isinstance(work, str)}
        return {sizes: np.array(work) / self.us[sizes] for sizes, work in possible.items()}

    def expected(self, sizes: Sizes, without: Sizes | None = None) -> tuple[float, Work] | str:
        """Return microseconds and work at a shape, or why there are none; ``without`` is held out."""
        work = self.work(sizes)
        if isinstance(work, str):
            return work
        rows = [row for at, row in self.rates.items() if at != without]
        if len(rows) < LEAST:
            return f"raced at fewer than {LEAST} shapes"
        return float(fitted(np.array(rows)) @ work), work


def fitted(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the nonnegative numbers that bring the sums of rows nearest to 1 (least squares).

    They are those of `scipy.optimize.nnls`, without its import of half a second: the best choice of columns
    whose plain least squares has no negative number. The numbers of the other columns are 0.
    """
    lengths = np.linalg.norm(rows, axis=0)
    best, least, ones = np.zeros(len(lengths)), math.inf, np.ones(len(rows))
    for choice in itertools.product((False, True), repeat=len(lengths)):
        chosen, numbers = np.flatnonzero(choice), np.zeros(len(lengths))
        numbers[chosen] = np.linalg.lstsq((rows / lengths)[:, chosen], ones, rcond=None)[0]
        error = float(np.sum((rows / lengths @ numbers - 1) ** 2))
        if (numbers >= 0).all() and error < least:
            best, least = numbers / lengths, error
    return best


def regret(raced: list[Raced], at: Sizes) -> float | None:
    """Return the percentage by which the pick is slower than the fastest at a raced, held-out shape."""
    times = [(racer.expected(at, without=at), racer.us[at]) for racer in raced if at in racer.us]
    predictions = [(expected, us) for expected, us in times if not isinstance(expected, str)]
    return 100 * (min(predictions)[1] / min(us for _, us in times) - 1) if predictions else None


def races(recorded: Recorded, kernels: Mapping[str, Kernel]) -> list[Raced]:
    """Return the raced variants with unchanged code, each dtype in its most frequent environment."""
    device = device_of(recorded.environments[recorded.main_environment])
    by_name, environments = dict[str, Raced | None](), dict[str, Counter[str]]()
    raced = list[tuple[Raced, str, tuple[int, int, int], float]]()
    results = recorded.results(("check", result.TUNE))
    wrong = {race.case for race in results if race.verdict not in (None, result.CORRECT)}
    for race in results:
        name, _, shape = race.case.partition("@")
        sizes = [int(size) for size in shape.split("x") if size.isdigit()]
        time = race.by_metric.get("tune_duration")
        if race.case in wrong or time is None or len(sizes) < 3:
            continue
        if name not in by_name:
            kernel = kernels.get(name.partition("-")[0])
            variant = _variant(kernel, recorded.compiled, name, f"sm_{device['arch']}")
            by_name[name] = None if variant is None else Raced(variant, device)
        if (racer := by_name[name]) is not None:
            raced.append((racer, race.environment, (sizes[0], sizes[1], sizes[2]), time))
            environments.setdefault(racer.variant.dtype, Counter())[race.environment] += 1
    for racer, environment, at, time in raced:
        if environment == environments[racer.variant.dtype].most_common(1)[0][0]:
            racer.us[at] = time
    return [racer for racer in by_name.values() if racer is not None and racer.us]


def _variant(
    kernel: Kernel | None, compiled: Mapping[str, Mapping[str, Any]], name: str, arch: str
) -> Variant | None:
    """Return the variant of a recorded compilation; None if its code has changed since."""
    entry = compiled.get(f"{name}.{arch}", {})
    if kernel is None or kernel.provider != "nvrtc" or "options" not in entry:
        return None
    options = [option for option in entry["options"] if option.startswith("-D")]
    definitions = [option[2:].partition("=") for option in options]
    macros = {macro: text for macro, _, text in definitions if macro in kernel.front.macros}
    try:
        current = variant(kernel, macros, kernel.path, "macros")
    except UserError:
        return None
    return current if Task(current, arch).text_key == entry.get("text") else None


def document(sizes: Sizes, raced: list[Raced]) -> dict[str, Any]:
    """Return the prediction as one JSON document, the variants from fast to slow."""
    variants: list[dict[str, Any]] = []
    skipped = Counter[str]()
    for racer in raced:
        expected = racer.expected(sizes)
        if isinstance(expected, str):
            skipped[expected] += 1
            continue
        us, (_, waves, products, _) = expected
        prediction = {"variant": racer.variant.id, "us": us, "tflops": 2e-6 * products / us}
        variants.append({**prediction, "measured_us": racer.us.get(sizes), "waves": waves})
    shapes = dict.fromkeys(at for racer in raced for at in racer.us)
    regrets = {_label(at): percent for at in shapes if (percent := regret(raced, at)) is not None}
    return {
        "schema_version": SCHEMA_VERSION,
        "shape": dict(zip("mnk", sizes)),
        "variants": sorted(variants, key=lambda row: row["us"]),
        "regret_percent": regrets,
        "left_out": dict(skipped),
    }


def _label(sizes: Sizes) -> str:
    return "x".join(map(str, sizes))


def text(answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield the document as lines of text for a terminal."""
    shape, shown = _label(tuple(answer["shape"].values())), answer["variants"][:SHOWN]
    yield f"{shape} {answer['dtype']} on {answer['gpu']}, by {answer['recording']}\n"
    if shown:
        rows = []
        for row in shown:
            measured = "-" if row["measured_us"] is None else f"{row['measured_us']:.2f}"
            numbers = f"{row['us']:.2f}", f"{row['tflops']:.1f}", measured, str(row["waves"])
            rows.append((row["variant"], *numbers))
        head = ("variant", "expected us", "TFLOP/s", "measured us", "waves")
        yield from columns(head, rows)
        only = f"best,{answer['dtype']} shapes={shape}"
        yield f"  to race all variants: snakemake --cores 1 tune --config only={only}\n"
    if regrets := answer["regret_percent"]:
        worst = max(regrets, key=lambda at: regrets[at])
        yield (
            f"At {len(regrets)} raced shapes, each held out in turn, the pick takes "
            f"{statistics.median(regrets.values()):.1f} % longer than the fastest in the median, "
            f"and {regrets[worst]:.0f} % at worst ({worst})."
        )
    yield from (f"{count} skipped: {why}" for why, count in answer["left_out"].items())
