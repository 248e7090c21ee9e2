"""One verdict on a kernel with switches: from trials where each of them is 1, and from those where one is 0."""

import re
from argparse import Namespace
from pathlib import Path
from typing import Any

from tilewave.commands.checking.judging import verdict_on
from tilewave.commands.checking.sources import CheckedKernel
from tilewave.kernel import operations, result

RIGHT = r"(?:could not tell whether {0} is right: no trial executed [^;]*; else it|{0}) is right(.*?)(?:; no trial executed lines? [\d, ]+)?"
"""The sentence on a right kernel, or on one of which too few lines were executed; the group says to what it is equal."""
VALUE = r"(?:, where| and) (?:{0}) is [01]\b|(?<=where )(?:{0}) is [01] and "
AT = re.compile(r" at (?:\d+ shape|its one size).*")
CHOICE = re.compile(r"but the value of ([\w, ]+) is Tilewave's choice \(--arguments\)")
OWN = "the file's own"


def with_switches(
    document: dict[str, Any], source: CheckedKernel, options: Namespace, machine: Any
) -> dict[str, Any]:
    """Return the document of a kernel with what its trials say where one of its switches is 0."""
    decided = document["exit_code"] == result.NOT_RIGHT or document.get("status") != result.OK
    if decided or not source.others:
        return document
    name, folders = document["kernel"], operations.MODULES.folders()
    off = {
        switch: verdict_on(kernel, options, machine)
        for switch, kernels in source.others.items()
        for kernel in kernels()
    }
    operations.MODULES.use(map(Path, folders))
    for switch, of in off.items():
        sure = of.get("verdict") != result.WRONG or OWN in of["sentence"]
        if of["exit_code"] == result.NOT_RIGHT and sure:
            text = f"{name} is not right where {switch} is 0"
            return of | {"sentence": of["sentence"].replace(f"{name} is not right", text, 1)}
    form, value = re.compile(RIGHT.format(re.escape(name))), VALUE.format("|".join(off))
    every = {"": document, **off}
    matches = {switch: form.fullmatch(of["sentence"]) for switch, of in every.items()}
    texts = {switch: re.sub(value, "", of[1]) for switch, of in matches.items() if of}
    where = {switch: f"where {switch} is 0" for switch in off}
    where[""] = f"where {' and '.join(off)} {'are' if len(off) > 1 else 'is'} 1"
    if "" not in texts:
        sentence, choice = document["sentence"], CHOICE.search(document["sentence"])
        same = all(of.get("verdict") == document["verdict"] for of in off.values()) and not texts
        if choice and same and {*choice[1].split(", ")} == {*off}:
            sentence = sentence.replace(choice[0], f"also {' and '.join(map(where.get, off))}")
        sentence += "".join(f"; {where[of]}, it is right{text}" for of, text in texts.items())
        return document | {"sentence": sentence}
    right = [every[switch] for switch in texts]
    unclear = [where[switch] for switch in off if switch not in texts]
    ends = {match[0] for match in map(AT.search, texts.values()) if match}
    end = ends.pop() if len(ends) == 1 and all(map(AT.search, texts.values())) else ""
    parts = {switch: text.removesuffix(end) for switch, text in texts.items()}
    if len({*parts.values()}) == 1:
        text = f"{parts['']}{end}, {' and '.join(where[switch] for switch in parts)}"
    else:
        text = "".join(f"; {where[switch]}{part}" for switch, part in parts.items())[1:] + end
    text += f"; it could not tell {' and '.join(unclear)}" * bool(unclear)
    missed = [
        row for row in document["trust"]["not_reached"]
        if all(row in of["trust"]["not_reached"] for of in right)
    ]  # fmt: skip
    lines = [str(of["line"]) for of in missed if of["file"] == source.path.name]
    idle = f"no trial executed line{'s' * (len(lines) > 1)} {', '.join(lines)}"
    sure = not lines or any(of["exit_code"] == result.RIGHT for of in right)
    ended = f"{name} is right{text}" + f"; {idle}" * bool(lines)
    doubt = f"could not tell whether {name} is right: {idle}; else it is right{text}"
    return document | {
        "exit_code": result.RIGHT if sure else result.UNCLEAR,
        "sentence": ended if sure else doubt,
        "trials": [row for of in right for row in of["trials"]],
        "trust": document["trust"] | {"not_reached": missed},
    }
