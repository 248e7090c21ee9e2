"""A builder of a study's data, with the environments of its invented records."""

import math
from typing import Any

import pandas as pd

from tilewave.pipeline.tables import RECORD_COLUMNS
from tilewave.plots.base import CASE_COLUMNS, INSTRUCTION_COLUMNS, StudyData

ENVIRONMENT = "h200-test"
SMS = 132
ENVIRONMENTS = {
    ENVIRONMENT: {
        "id": ENVIRONMENT, "gpu": "NVIDIA H200", "compute_capability": "9.0", "sms": SMS,
        "driver": "580.159.03", "ncu": "2025.3.1", "nvrtc": "13.0.88", "commit": "0123456789abcdef",
        "cpu": "Synthetic CPU 9000 64-Core Processor", "recorded": True,
    },
    "here": {"id": "here", "gpu": "NVIDIA L4", "sms": 58, "driver": "575.1", "recorded": False},
}  # fmt: skip


class Builder:
    """A builder of a StudyData from cases and records."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.cases: dict[str, dict[str, Any]] = {}
        self.records: list[dict[str, Any]] = []
        self.instructions: list[dict[str, Any]] = []

    def case(
        self, variant: str, dtype: str, shape: tuple[int, ...] = (), probe: str = "", operation: str = "matmul",
        **more: Any,
    ) -> str:  # fmt: skip
        name = probe or "x".join(map(str, shape))
        m, n, k = shape or (None, None, None)
        row = dict.fromkeys(CASE_COLUMNS) | {
            "case": f"{variant}@{name}", "kernel": variant.partition("-")[0], "variant": variant, "macros": "{}",
            "operation": operation, "dtype": dtype, "m": m, "n": n, "k": k, "probe_case": probe,
            "block_threads": 256.0, "registers": 128.0, "shared_bytes": 49152.0,
            "flop": 2.0 * math.prod(shape) if shape and operation == "matmul" else None,
        }  # fmt: skip
        row |= more
        self.cases[row["case"]] = row
        return str(row["case"])

    def probe(self, variant: str, name: str, dtype: str = "", **more: Any) -> str:
        return self.case(variant, dtype, probe=name, operation="probe", **more)

    def add(
        self, case: str, stage: str, figures: dict[str, float] | None = None, status: str = "ok",
        reason: str = "", verdict: str | None = None, environment: str = ENVIRONMENT,
        source: str = "events",
    ) -> None:  # fmt: skip
        """Add a record of each figure. A recorded environment is the source of its figures."""
        about = {name: value for name, value in self.cases[case].items() if name in RECORD_COLUMNS}
        facts = ENVIRONMENTS[environment]
        about |= {
            "stage": stage, "unit": "", "status": status, "reason": reason, "verdict": verdict, "key": "k",
            "source": f"recorded:{facts['gpu']}" if facts["recorded"] else source, "environment": environment,
        }  # fmt: skip
        for metric, value in (figures or {"": math.nan}).items():
            self.records.append({**about, "metric": metric, "value": value})

    def check(self, case: str, verdict: str = "correct", **figures: float) -> None:
        """Add a check with that verdict; by default its error is 0."""
        self.add(case, "check", figures or {"max_error": 0.0}, verdict=verdict)

    def fail(self, case: str, status: str, reason: str, stage: str = "check") -> None:
        self.add(case, stage, status=status, reason=reason)

    def timed(self, case: str, tflops: float, cublas: float, verdict: str = "correct") -> None:
        """Add a check, and times beside those of cuBLAS."""
        self.check(case, verdict, max_error=1e-3, tolerance=2e-3, relative_error=1e-4)
        flops, share = self.cases[case]["flop"], 100 * tflops / cublas
        paired = {"": share, "_low": 0.996 * share, "_high": 1.009 * share}
        if case.startswith("cublas"):
            paired = {}
        figures = {
            "duration": flops / tflops / 1e6, "tflops": tflops, "baseline_tflops": cublas,
            "baseline_duration": flops / cublas / 1e6, "percent_of_cublas": share,
            **{f"paired_share{end}": value for end, value in paired.items()},
            "duration_spread": 0.4, "empty_kernel": 1.9,
        }  # fmt: skip
        self.add(case, "time", figures)

    def instruction(
        self, case: str, opcode: str, counted: float, ideal: float, stage: str = "counters",
        source: str = "recorded:NVIDIA H200", environment: str = ENVIRONMENT,
    ) -> None:  # fmt: skip
        before = sum((row["case"], row["stage"]) == (case, stage) for row in self.instructions)
        row = {
            "case": case, "key": "k", "environment": environment, "source": source,
            "stage": stage, "address": 16 * before, "opcode": opcode,
            "wavefronts_shared": counted, "wavefronts_shared_ideal": ideal,
            "wavefronts_shared_excess": counted - ideal, "executed": 1.0,
        }  # fmt: skip
        self.instructions.append(dict.fromkeys(INSTRUCTION_COLUMNS) | row)

    def study(self, **options: Any) -> StudyData:
        cases = pd.DataFrame(self.cases.values(), columns=[*CASE_COLUMNS, "provider", "follows"])
        columns = [*INSTRUCTION_COLUMNS, "stage"]
        return StudyData(
            name=self.name, title=self.name, question=f"What does {self.name} show?", options=options,
            cases=cases, records=pd.DataFrame(self.records, columns=RECORD_COLUMNS),
            instructions=pd.DataFrame(self.instructions, columns=columns), environments=ENVIRONMENTS,
            target={"label": "NVIDIA H200", "live": False, "sms": SMS, "environment": ENVIRONMENT},
        )  # fmt: skip
