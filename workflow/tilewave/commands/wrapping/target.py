"""A kernel to wrap: its guess with the facts of the command line, and its trials."""

import re
import tempfile
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tilewave import execution
from tilewave.basics.errors import HERE, UserError
from tilewave.commands import execute
from tilewave.commands.wrapping import compiled, matching, trying, writing
from tilewave.commands.wrapping.guessing import (
    Guess,
    guessed,
    set_common_grid,
    tiles_of_grid,
    with_block,
)
from tilewave.commands.wrapping.reading import Function, Source
from tilewave.execution import case
from tilewave.kernel import operations
from tilewave.kernel.expressions import Sizes
from tilewave.kernel.front_matter import INFERRED
from tilewave.kernel.job import Job
from tilewave.kernel.operations.base import Operation

KEYS = {"--block": "block", "--grid": "grid", "--shared": "shared_bytes"}
KEYS["--arguments"] = "arguments"
"""Flag -> key of front matter."""
LEAST_S, SHARE = 1.0, 3
"""Least limit of a trial that shows what a kernel touches, and the part of the time left that it may take."""
NEWER = re.compile(r"\bwgmma\.|setmaxnreg|tcgen05")


@dataclass(frozen=True)
class Target:
    """A kernel to wrap. folders: of headers, besides the kernel's; ready: the kernel's facts from a cubin."""

    options: Namespace
    function: Function
    source: Source
    folders: Sequence[Path]
    ready: compiled.CompiledKernel | None
    begun: float = field(default_factory=time.monotonic)

    def guess(self, operation: Operation, roles: matching.Roles = None) -> Guess:
        """Guess front matter from the code and the command line. Raises UserError for a fact that is missing."""
        options, source, ready = self.options, self.source, self.ready
        entry, names = options.entry or "", [item.name for item in self.function.parameters]
        arguments = [*matching.leaves(_parsed("--arguments", options.arguments or ""))]
        stated = dict(zip(names, arguments)) if len(arguments) == len(names) else None
        dtype = options.dtype or ""
        guess = guessed(self.function, source, operation, dtype, roles, entry, stated)
        if ready is not None:
            guess.front |= ready.front
            guess.front["arguments"] += [None] * ready.scratch
            guess.front["requires"] = {**guess.front.get("requires", {}), "arch": ready.arch}
            if "block" in ready.front:
                guess.unknown.pop("--block", None)
                if "--grid" in guess.unknown:
                    set_common_grid(guess)
            if ready.dynamic:
                guess.share(source)
            note = f"the arrays are {ready.dtype}, by its instructions (--dtype changes it)"
            guess.notes.append(note)
        for name, _, value in (definition.partition("=") for definition in options.macro):
            guess.front.setdefault("macros", {})[name] = [int(value) if value.isdigit() else value]
        if entry:
            guess.unknown.pop("--entry", None)
        if not (options.operation or options.new_operation):
            guess.mark("operation")
        _take_flags(options, guess)
        arrays, arguments = [*operation.operands], guess.front["arguments"]
        if len(arrays) == 2 and matching.in_place(self.function.parameters, operation):
            guess.front["arguments"] = [arrays[1] if of == arrays[0] else of for of in arguments]
        if NEWER.search("".join(source.texts[path] for path in source.kernel_files)):
            guess.front["architecture_specific"] = True
        return guess

    def write(self, front: Mapping[str, Any], path: Path, shape: Sizes) -> list[str]:
        """Write a kernel file for a trial at a shape; return the arguments of `tilewave execute` for it."""
        marks = {**front.get("marks", {}), "requires": f"{INFERRED}: {', '.join(shape)}"}
        front = {**front, "requires": shape, "marks": marks}
        path.write_text(writing.text(front, self.source, self.folders, path), encoding="utf-8")
        return [str(path), "--shape", trying.size(shape), "--arch", self.options.arch]

    def trial(
        self, front: Mapping[str, Any], shape: Sizes, indices: Sequence[str] = (), room: int = 1
    ) -> case.UnjudgedRun:
        """Execute the kernel once; return its buffers, ``room`` elements apart. ``indices`` begin with the largest index."""
        with tempfile.TemporaryDirectory(prefix="tilewave-") as folder:
            path = writing.trial_path(self.source, Path(folder))
            left = self.begun + self.options.budget - time.monotonic()
            limit = ["--limit", str(max(left / SHARE, LEAST_S))]
            arguments = execute.options_of([*self.write(front, path, shape), *limit])
            try:
                _, job, _ = execute.planned(arguments, Path(folder))
            except UserError as error:  # a grid that has no value at these sizes
                return case.UnjudgedRun({}, str(error), True)
            if not isinstance(job, Job):
                return case.UnjudgedRun({}, job.reason, True)
            inputs = operations.load(job.operation).inputs(job)
            for name in indices:
                inputs[name][:1] = min(shape.values()) - 1
            machine = self.options.machine or execution.engine(processes=2)
            return case.run_unjudged(job, inputs, machine, footprint=room)


def _take_flags(options: Namespace, guess: Guess) -> None:
    """Put the command line's flags into the guess. Raises UserError for a fact that is missing."""
    for flag, key in KEYS.items():
        text, value = getattr(options, flag.strip("-")), guess.front.get(key, [])
        if text is not None:
            guess.alternatives.clear()  # they belong to the replaced guess
            if guess.literal and key in ("block", "grid"):  # it was scaled by the launch's block
                guess.front["grid"], guess.literal = guess.literal, []
                guess.unknown.pop("--grid", None)
            guess.unknown.pop(flag, None)
            guess.notes[:] = [note for note in guess.notes if flag not in note]
            parsed = _parsed(flag, text)
            guess.front[key] = parsed[0] if key == "shared_bytes" else parsed
            if key == "block":
                with_block(guess, parsed)
            tiles_of_grid(guess)
        elif flag in guess.unknown:
            if "None" in matching.leaves(value):
                raise UserError(HERE, flag, None, guess.unknown[flag])
            guess.notes.append(f"{key} is a guess: {guess.unknown[flag]} ({flag} changes it)")
            guess.mark(key)
    for flag in ("--entry", *([] if options.dtype else ["--dtype"])):
        if flag in guess.unknown:
            raise UserError(HERE, flag, None, guess.unknown[flag])


def _parsed(flag: str, text: str) -> Any:
    """Return the expressions of a flag. Raises UserError."""
    try:
        return yaml.safe_load(f"[{_quoted(text)}]")
    except yaml.YAMLError as error:
        raise UserError(HERE, flag, text, "expressions separated by commas") from error


def _quoted(text: str) -> str:
    """Put expressions that YAML cannot read into quotation marks, also in nested lists."""
    cut = map(str.strip, re.split(r"([,\[\]{}]|:(?= ))(?![^(]*\))", text))
    plain = re.compile(r"[\w.-]*|[,\[\]{}:]")
    quoted = (token if plain.fullmatch(token) else f'"{token}"' for token in cut)
    return "".join(": " if token == ":" else token for token in quoted)
