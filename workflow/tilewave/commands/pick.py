"""``tilewave pick SHAPE --dtype DTYPE``: the variant that should be the fastest, expected time, and why.

Nothing is compiled or measured: the answer follows from a recording (`tilewave.picking`).
Exit code 0: a variant is named; 1: none can run at the shape; 2: a mistake on the command line.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilewave.columns import columns
from tilewave.commands import own
from tilewave.dtypes import DTYPES
from tilewave.errors import HERE, UserError
from tilewave.home import RECORDED, SHIPPED, place, relative
from tilewave.kernels import find_kernels
from tilewave.operations.matmul import Matmul
from tilewave.picking import Answer, Candidate, Picker
from tilewave.records.recorded import Recorded, folders, foremost
from tilewave.theory.calibration import SHAPES
from tilewave.theory.nearby import Sizes
from tilewave.theory.quantization import tile_count

SCHEMA_VERSION = 2
SHOWN = 5
"""Variants of the text."""


def add(commands: Any) -> None:
    """Add the parser of this subcommand."""
    made = commands.add_parser(
        "pick", help="which variant should be the fastest at a shape, how long it takes, and why",
        description="Predict the time of every recorded variant of a matrix product at a shape that need "
        "not be measured, from a few of its recorded cases.",
    )  # fmt: skip
    made.add_argument("shape", metavar="SHAPE", help="4096, or 2304x1920x4096 (m, n, k)")
    made.add_argument(
        "--dtype",
        required=True,
        metavar="DTYPE",
        help="f32, f64, f16_f32, ...; f16 is f16 with an f32 sum",
    )
    made.add_argument(
        "--gpu", metavar="NAME",
        help=f"a GPU of {RECORDED}, or a folder of recorded figures; default: the one with the most",
    )  # fmt: skip
    made.add_argument(
        "--kernels",
        nargs="+",
        default=[SHIPPED],
        metavar="FOLDER",
        help=f"default: {SHIPPED}",
    )
    own.add_operations(made)
    made.add_argument("--json", action="store_true", help="one JSON document instead of text")
    made.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Pick and tell; the exit code. Raises UserError."""
    own.use_operations(options)
    shape = own.shape(options.shape, Matmul.dimensions, "SHAPE")
    refused: dict[str, UserError] = {}
    kernels = find_kernels([place(folder) for folder in options.kernels], refused)
    recorded = _recorded(options.gpu)
    picker = Picker(recorded, kernels)
    resolved = shape.resolve(picker.device)
    sizes = resolved["m"], resolved["n"], resolved["k"]
    dtype = _dtype(options.dtype, picker)
    told = document(picker, recorded, sizes, dtype, picker.answer(sizes, dtype))
    raced = options.kernels == [SHIPPED]  # by the shipped config
    print(json.dumps(told, indent=1) if options.json else "\n".join(text(told, raced)))
    return 0 if told["variants"] else 1


def _recorded(named: str | None) -> Recorded:
    """The recording that is named, or the one with the most results. Raises UserError."""
    known = {path.name: path for path in folders(place(RECORDED))}
    if named is None:
        found = next(iter(foremost(place(RECORDED))), None)
    else:
        path = known.get(named, Path(named).expanduser())
        found = Recorded(path) if path.is_dir() else None
    if found is None:
        raise UserError(HERE, "--gpu", named, [*known, "a folder of recorded figures"])
    return found


def _dtype(named: str, picker: Picker) -> str:
    """A label of the recorded dtypes: the one that is named, or its product with an f32 sum. Raises UserError."""
    known = picker.dtypes()
    found = next((one for one in (named, f"{named}_f32") if one in known), None)
    if found is not None:
        return found
    if not known or named.partition("_")[0] in DTYPES:
        shapes = ", ".join(_label(dict(zip("mnk", sizes))) for sizes in SHAPES)
        raise UserError(HERE, "--dtype", named, (
            f"those of which products are recorded on {picker.environment['gpu']}: {', '.join(known) or 'none'}. "
            f"To record others, time their kernels there at {shapes}, and call `tilewave record` "
            "(docs/picking.md)"
        ))  # fmt: skip
    raise UserError(HERE, "--dtype", named, known)


# ----------------------------------------------------------------------------------- the document


def _candidate(one: Candidate, sizes: Sizes, sms: int) -> dict[str, Any]:
    launch, shape = one.launch, dict(zip("mnk", sizes))
    m, n, k = sizes
    return {
        "variant": one.known.variant.id,
        "us": one.us,
        "tflops": 2e-6 * m * n * k / one.us,
        "measured_us": one.measured,
        "tile": list(launch.tile),
        "tiles": tile_count(shape, launch.tile),
        "blocks": launch.blocks,
        "blocks_per_sm": launch.blocks_per_sm,
        "waves": launch.waves(sms),
        "spent_us": dict(one.spent),
        "times_more": one.known.costs.times_more(shape),
        "fitted": [{"shape": dict(case.shape), "us": case.us} for case in one.known.fitted],
    }


def document(
    picker: Picker, recorded: Recorded, sizes: Sizes, dtype: str, answer: Answer
) -> dict[str, Any]:
    """All that is known of the choice, as one JSON document; the variants as they are ranked."""
    return {
        "schema_version": SCHEMA_VERSION,
        "shape": dict(zip("mnk", sizes)),
        "dtype": dtype,
        "gpu": picker.environment["gpu"],
        "sms": picker.sms,
        "recording": relative(recorded.folder),
        "variants": [_candidate(one, sizes, picker.sms) for one in answer.candidates],
        "left_out": dict(answer.refused),
    }


# ------------------------------------------------------------------------------------- the text


def _label(shape: Mapping[str, int]) -> str:
    return "x".join(map(str, shape.values()))


def _shares(spent: Mapping[str, float]) -> str:
    """`steps along k 66 %, launch 5 %`, the largest first."""
    total = sum(spent.values())
    told = sorted(spent.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {100 * us / total:.0f} %" for name, us in told if us > 0.005 * total)


def _geometry(one: Mapping[str, Any]) -> str:
    tile = "x".join(map(str, one["tile"]))
    dealt = "" if one["blocks"] == one["tiles"] else f", shared by {one['blocks']} blocks"
    return (
        f"{one['tiles']} tiles of {tile}{dealt}: {one['waves']:.2f} waves, "
        f"{one['blocks_per_sm']} on an SM at a time"
    )


def _against(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """What the runner-up spends more on."""
    more = {name: us - one["spent_us"][name] for name, us in other["spent_us"].items()}
    name = max(more, key=lambda cost: more[cost])
    percent = 100 * (other["us"] / one["us"] - 1)
    return (
        f"{other['variant']} would take {percent:.1f} % longer, {more[name]:.2f} us more for {name}"
    )


def _race(told: Mapping[str, Any]) -> str:
    """The command that measures those that are shown, on a GPU."""
    shown = ",".join(one["variant"] for one in told["variants"][:SHOWN])
    return f"snakemake --cores 1 tune --config only={shown} shapes={_label(told['shape'])}"


def text(told: Mapping[str, Any], raced: bool = False) -> list[str]:
    """The document for a reader at a terminal, by lines. raced: the variants are those of a study that races."""
    found = told["variants"]
    lines = [
        f"{_label(told['shape'])} {told['dtype']} on {told['gpu']}, by {told['recording']}",
        "",
    ]
    if found:
        first = found[0]
        lines += [
            f"{first['variant']}: {first['us']:.2f} us expected, {first['tflops']:.1f} TFLOP/s",
            f"  {_geometry(first)}",
            f"  its time: {_shares(first['spent_us'])}",
            f"  {abs(100 * first['times_more'] - 100):.1f} % {'more' if first['times_more'] >= 1 else 'less'} than its costs "
            "alone say, by what it took at shapes like this one",
            *(f"  runner-up: {_against(first, other)}" for other in found[1:2]),
            "",
            *columns(
                ("variant", "expected us", "measured us", "tile", "waves"),
                [
                    (
                        one["variant"],
                        f"{one['us']:.2f}",
                        "-" if one["measured_us"] is None else f"{one['measured_us']:.2f}",
                        "x".join(map(str, one["tile"])),
                        f"{one['waves']:.2f}",
                    )
                    for one in found[:SHOWN]
                ],
            ),
            *([f"  to race them: {_race(told)}"] if raced else []),
            "",
            f"Variants: {len(found)}, each fitted from its measured cases and a little from its kernel's; the first's:",
            *(f"  {_label(case['shape'])}  {case['us']:.2f} us" for case in first["fitted"]),
        ]
    lines += [f"{count} left out: {why}" for why, count in told["left_out"].items()]
    return lines
