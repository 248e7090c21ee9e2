"""Stand-ins for what ncu_report reads from a report of Nsight Compute."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

from tilewave.records.counters import catalogue

BASE = 0x7F00_1000


class FakeMetric:
    """A counter: a value, or one for each of several absolute addresses."""

    def __init__(self, value: Any, unit: str = "", instances: dict[int, int] | None = None) -> None:
        self._value, self._unit, self._instances = value, unit, instances or {}

    def value(self, i: int | None = None) -> Any:
        return self._value if i is None else list(self._instances.values())[i]

    def unit(self) -> str:
        return self._unit

    def num_instances(self) -> int:
        return len(self._instances)

    def correlation_ids(self) -> Any:
        ids = list(self._instances)
        return SimpleNamespace(as_uint64=ids.__getitem__) if ids else None


class FakeAction:
    """A profiled kernel: counters by name, SASS by address, and the case's NVTX range."""

    def __init__(
        self,
        name: str,
        counters: dict[str, Any],
        case: str | None = None,
        grid: tuple[int, int, int] = (4, 2, 1),
        sass: dict[int, str] | None = None,
    ) -> None:
        self._name, self.case, self.sass = name, case, sass or {}
        sizes = {f"launch__grid_dim_{axis}": size for axis, size in zip("xyz", grid, strict=True)}
        self.metrics = {
            key: value if isinstance(value, FakeMetric) else FakeMetric(value)
            for key, value in {**counters, **sizes}.items()
        }

    def name(self) -> str:
        return self._name

    def metric_by_name(self, name: str) -> FakeMetric | None:
        return self.metrics.get(name)

    def nvtx_state(self) -> Any:
        if self.case is None:
            return None
        ranges = {"library": "99", "tilewave": "measure", "tilewave-job": self.case}
        domains = []
        for name, range_name in ranges.items():
            domains.append(MagicMock(push_pop_ranges=MagicMock(return_value=(range_name,))))
            domains[-1].name.return_value = name
        return SimpleNamespace(domains=lambda: range(3), domain_by_id=domains.__getitem__)

    def sass_by_pc(self, address: int) -> str:
        return self.sass.get(address, "")


class FakeRange(list):  # type: ignore[type-arg]
    def num_actions(self) -> int:
        return len(self)


SASS = {
    BASE: "      LDC R1, c[0x0][0x28] ;",
    BASE + 16: "      IADD3 R4, R4, 0x1, RZ ;",
    BASE + 32: "@!P0  LDS.64 R2, [R4+0x10] ;",
    BASE + 48: "      STS.128 [R4], R8 ;",
}


def instruction_counters() -> dict[str, Any]:
    shared, ideal = {BASE + 32: 8, BASE + 48: 4}, {BASE + 32: 2, BASE + 48: 4}
    return {
        "inst_executed": FakeMetric(40, "inst", {BASE + 16 * i: 10 for i in range(4)}),
        "memory_l1_wavefronts_shared": FakeMetric(12, "", shared),
        "memory_l1_wavefronts_shared_ideal": FakeMetric(6, "", ideal),
    }


class SampledAction(FakeAction):
    """A kernel of a report with stall samples and rules, with its names as C++ mangles them."""

    def __init__(self, counters: dict[str, Any], rules: Any = (), entry: str = "tiled") -> None:
        super().__init__("tiled", counters, "a", sass=SASS)
        self.rule_results_as_dicts, self.metric_names = lambda: rules, lambda: list(self.metrics)
        self.name = lambda base=None: entry if base else "tiled"


def samples() -> dict[str, FakeMetric]:
    return {
        **instruction_counters(),
        f"{catalogue.STALLS}wait": FakeMetric(5, "", {BASE + 32: 2, BASE + 16: 3}),
        f"{catalogue.STALLS}wait_not_issued": FakeMetric(1, "", {BASE + 32: 1}),
        f"{catalogue.STALLS}barrier": FakeMetric(7, "", {BASE + 32: 7}),
    }


STALLED = {"title": "Barrier Stalls", "message": "Warps wait.", "type": 2}
LOUD = {"rule_identifier": "CPIStall", "name": "Warp Stall", "rule_message": STALLED}
LOUD |= {"section_identifier": "WarpStateStats"}
LOUD |= {"speedup_estimation": {"type": 2, "speedup": 12.5}}
LOUD |= {"focus_metrics": [{"name": "stalled", "value": 0.5, "severity": 0, "info": ""}]}
RULES = (LOUD, {"name": "Silent", "rule_message": {"title": "", "message": "", "type": 0}})
