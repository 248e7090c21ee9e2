"""How far an execution can be trusted: what was executed exactly, approximately or not at all."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from tilewave.basics.tables import table_beside

COMPARED_ARCH = 90
"""The architecture whose instructions were compared with a GPU, bit by bit."""
TABLES = table_beside(__file__)
APPROXIMATE = [(re.compile(pattern), why) for pattern, why in TABLES["approximate"].items()]
TENSOR = re.compile(r"(?:[BHIOQ]|HG|IG|QG|D)MMA\b")
IDLE = 0.25
"""Part of the lines with an access to memory that is not executed by any trial of a kernel which nobody calls right."""
ACCESS = re.compile(r"LD(?!C|EPC)|ST|RED(?!UX)|ATOM|SU|UBLK|UTMA")
ANGLES = re.compile(r"\b(?:sin|cos|tan|sincos)f? *\(")
"""Calls whose code for large angles reads a table."""
NOT_LOOKED_FOR = TABLES["not_looked_for"]


def of_instructions(cases: Iterable[Iterable[Mapping[str, Any]]], arch: int) -> dict[str, Any]:
    """Return the opcodes by how they were executed, and the lines with an access to memory that no case reached: the
    compiler moves other instructions, and leaves some in the copies of an unrolled loop only.
    cases: the rows of every instruction (`CaseExecution.rows`) of each case of one variant."""
    exact: set[str] = set()
    approximate: dict[str, set[str]] = {}
    accesses, begun = dict[tuple[str, int], tuple[str, bool]](), set[tuple[str, int]]()
    for row in (row for rows in cases for row in rows):
        place = str(row["file"]), int(row["line"] or 0)
        reached = bool(row["executed"])
        if place[1] and ACCESS.match(str(row["opcode"])):
            accesses[place] = str(row["text"]), reached or accesses.get(place, ("", False))[1]
        if not reached:
            continue
        begun.add(place)
        base = str(row["opcode"]).partition(".")[0]
        reasons = [why for pattern, why in APPROXIMATE if pattern.search(str(row["sass"]))]
        if arch != COMPARED_ARCH and TENSOR.match(base):
            reasons.append("by a rule that was not compared with a GPU of this architecture")
        for why in reasons:
            approximate.setdefault(why, set()).add(base)
        if not reasons:
            exact.add(base)
    missed = [(*at, text) for at, (text, reached) in sorted(accesses.items()) if not reached]
    missed = [of for of in missed if of[:2] not in begun or not ANGLES.search(of[2])]
    return {
        "exact": sorted(exact),
        "approximate": [{"opcodes": sorted(of), "reason": why} for why, of in approximate.items()],
        "not_reached": [{"file": file, "line": line, "text": text} for file, line, text in missed],
        "idle": bool(missed) and len(missed) >= IDLE * len(accesses),
        "compared": arch == COMPARED_ARCH,
    }
