"""One verdict on a kernel with switches: from trials where each of them is 1, and from those where one is 0."""

import re
from argparse import Namespace
from pathlib import Path
from typing import Any

from tilewave.commands.checking.judging import verdict_with
from tilewave.commands.checking.notes import PATTERNS, TABLES
from tilewave.commands.checking.sources import CheckedKernel
from tilewave.kernel import operations, result


def with_switches(
    document: dict[str, Any], source: CheckedKernel, options: Namespace, machine: Any, home: Path
) -> dict[str, Any]:
    """Return the document of a kernel with what its trials say where one of its switches is 0."""
    decided = document["exit_code"] == result.NOT_RIGHT or document.get("status") != result.OK
    if decided or not source.switches:
        return document
    name, folders, off = source.name, operations.MODULES.folders(), dict[str, dict[str, Any]]()
    for switch in source.switches:
        of = verdict_with({"off": switch}, source, options, machine, home / f"{name}-{switch}")
        off |= {switch: of} if of else {}
    operations.MODULES.use(map(Path, folders))
    for switch, of in off.items():
        sure = of.get("verdict") != result.WRONG or "the file's own" in of["sentence"]
        if of["exit_code"] == result.NOT_RIGHT and sure:
            where_off = f" is not right where {switch} is 0"
            return of | {"sentence": of["sentence"].replace(" is not right", where_off, 1)}
    every, form = {"": document, **off}, re.compile(TABLES["right"].format(re.escape(name)))
    matches = ((switch, form.fullmatch(of["sentence"])) for switch, of in every.items())
    texts = {switch: of[1] for switch, of in matches if of}
    where = {switch: f"where {switch} is 0" for switch in off}
    unclear = [text for switch, text in where.items() if switch not in texts]
    where[""] = f"where {' and '.join(off)} {'are' if off.keys() > {switch} else 'is'} 1"
    sentence, value = document["sentence"], TABLES["value"].format("|".join(off))
    if "" not in texts:
        if len(unclear) == len(off):
            sentence = PATTERNS["choice"].sub(f"also {' and '.join(unclear)}", sentence)
        sentence += "".join(f"; {where[of]}, it is right{text}" for of, text in texts.items())
        return document | {"sentence": sentence}
    if off.keys().isdisjoint(texts):
        text = texts[""] + f", {where['']}" * (not re.search(value, texts[""]))
    else:
        texts = {switch: re.sub(value, "", text) for switch, text in texts.items()}
        parts = {switch: PATTERNS["shapes"].sub("", text) for switch, text in texts.items()}
        if len({text.removeprefix(parts[of]) for of, text in texts.items()}) > 1:
            parts = texts
        text = "".join(f"; {where[switch]}{part}" for switch, part in parts.items())[1:]
        text += texts[""].removeprefix(parts[""])
    text += f"; it could not tell {' and '.join(unclear)}" * bool(unclear)
    right = [every[switch] for switch in texts]
    reached = [of["trust"]["not_reached"] for of in right]
    missed = [row for row in reached[0] if all(row in rows for rows in reached)]
    lines = [str(of["line"]) for of in missed if of["file"] == source.path.name]
    idle = f"no trial executed line{'s' * (len(lines) > 1)} {', '.join(lines)}"
    sure = not lines or any(of["exit_code"] == result.RIGHT for of in right)
    doubt = f"could not tell whether {name} is right: {idle}; else it is right{text}"
    return document | {
        "exit_code": result.RIGHT if sure else result.UNCLEAR,
        "sentence": f"{name} is right{text}" + f"; {idle}" * bool(lines) if sure else doubt,
        "trials": [row for of in right for row in of["trials"]],
        "trust": document["trust"] | {"not_reached": missed},
    }
