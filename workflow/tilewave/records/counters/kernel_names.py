"""The output tile in the name of a vendor kernel.

cuBLAS does not say which kernel it launched, but a profiler sees its name, and most names contain the tile of
a thread block. Four generations of names are understood:

* ``sm80_xmma_gemm_..._tilesize128x64x32_...``: m, n and k step of the tile;
* ``nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_TNT``: m and n, then k step and stages, then the cluster;
* ``ampere_h16816gemm_128x128_ldg8_stages_32x5_tn`` and ``volta_sgemm_32x128_nn``: m and n;
* ``cutlass_80_tensorop_f16_s16816gemm_f16_128x64_32x6_tn_align8``: m and n, then k step and stages.
"""

import re

_SIZES = r"(\d{1,4})x(\d{1,4})"
# The most specific first: an xmma name holds other pairs (`warpsize2x2x1`, `tensor16x8x16`).
_PATTERNS = (
    re.compile(rf"_tilesize{_SIZES}x\d+(?=_|$)"),
    re.compile(rf"(?:^|[^a-z0-9])nvjet_(?:[a-z0-9]+_)*?{_SIZES}(?=_)"),
    re.compile(rf"(?:gemm|tensorop|simt)[a-z0-9]*_(?:[a-z0-9]+_)*?{_SIZES}(?=_|$)"),
)
_SMALLEST, _LARGEST = 8, 512  # sizes of a thread block's tile; other pairs are no tile


def tile_of(name: str) -> tuple[int, int] | None:
    """Return (m, n) of the tile for a product whose C is row-major; None if the name has no tile. cuBLAS
    computes C^T = B^T A^T: the pair is swapped. Of several names (``; ``) the first with a tile counts."""
    for kernel in name.split(";"):
        for pattern in _PATTERNS:
            for match in pattern.finditer(kernel):
                first, second = int(match[1]), int(match[2])
                if all(_SMALLEST <= size <= _LARGEST for size in (first, second)):
                    return second, first
    return None
