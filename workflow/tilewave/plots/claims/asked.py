"""What claims of several documents are judged by: closed forms and questions to the records."""

from __future__ import annotations

from tilewave.plots.claims.facts import Facts, Function
from tilewave.theory import traffic

F16 = 2  # bytes
STAGED = "hgemm_wmma_staged"
TILE = (256, 128)  # of it
CUBLAS = "cublas-typef16_f32"
LARGE = (8192, 8192, 8192)
NAIVE = {"m": 264, "n": 136, "k": 96}
"""The shape at which the naive kernel's loads are counted."""


def mnk(m: int, n: int, k: int) -> dict[str, int]:
    return {"m": m, "n": n, "k": k}


def latency(level: str) -> Function:
    return lambda f: f.value(f.probe("latency", level), "latency")


def naive_loads(matrix: int) -> Function:
    """How often the naive kernel loads an element of A (0) or B (1).

    Counted requests are warps' instructions, half of them for A; a row of C has n lanes in
    ceil(n / 32) warps.
    """
    m, n, k = 264, 136, 96

    def loads(f: Facts) -> float | None:
        requests = f.value(
            f.case("matmul_naive", m, n, k), "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"
        )
        if requests is None:
            return None
        lanes = requests / 2 * n / -(-n // 32)
        return lanes / (m * k, k * n)[matrix]

    return loads


def predicted_loads(matrix: int) -> Function:
    return lambda f: float(traffic.loads_per_element(NAIVE)[matrix])


def speedup(over: str, under: str) -> Function:
    return lambda f: f.ratio("tflops", f.case(over, 4096), f.case(under, 4096))


def shared_over_l1(f: Facts) -> float | None:
    return f.ratio("latency", f.probe("latency", "shared"), f.probe("latency", "l1"))
