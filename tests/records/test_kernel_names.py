"""Names of vendor kernels: the tile they tell, in the order of the row-major product."""

import pytest

from tilewave.records.counters.kernel_names import tile_of

XMMA = "sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x64x32_stage4_warpsize2x2x1_tensor16x8x16"


@pytest.mark.parametrize(
    ("name", "tile"),
    [
        (f"{XMMA}_kernel", (64, 128)),
        ("sm90_xmma_gemm_bf16_tn_n_tilesize256x128x64_warpgroupsize2x1x1_kernel__5x_cublas", (128, 256)),
        ("ampere_h16816gemm_128x64_ldg8_stages_32x5_tn", (64, 128)),
        ("ampere_fp16_s16816gemm_fp16_256x128_ldg8_f2f_stages_64x3_nn", (128, 256)),
        ("ampere_sgemm_32x128_nn", (128, 32)),
        ("void cutlass::Kernel2<cutlass_80_tensorop_s16816gemm_128x64_32x6_tn_align8>(T1::Params)", (64, 128)),
        ("cutlass_80_simt_sgemm_256x128_8x4_nt_align1", (128, 256)),
        ("nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_TNT", (256, 128)),
        ("nvjet_tst_64x8_64x16_4x1_v_bz_TNN", (8, 64)),
        ("nvjet_hsh_192x192_64x3_2x1_v_bz_coopB_TNN", (192, 192)),
        ("nvjet_sm100_tst_16x64_64x16_4x1_v_bz_TNN", (64, 16)),
    ],
)  # fmt: skip
def test_the_pair_of_the_tile_is_read_and_turned(name: str, tile: tuple[int, int]) -> None:
    assert tile_of(name) == tile


@pytest.mark.parametrize(
    "name",
    [
        "",
        "hgemm_wmma_staged",
        "void cublasLt::splitKreduce_kernel<32, 16, int, __half, float, __half>(Params)",
        "void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false>()",
        "volta_sgemm_nn",
        # Pairs that are stages, clusters or warps, and no tile.
        "ampere_h16816gemm_stages_2x4_tn",
        "sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_warpsize2x2x1",
    ],
)
def test_names_without_a_tile(name: str) -> None:
    assert tile_of(name) is None


def test_the_first_of_several_names_that_tells_a_tile() -> None:
    product = "nvjet_hsh_64x128_64x8_1x1_h_bz_splitK_TNT"
    reduction = "void cublasLt::splitKreduce_kernel<32, 16, int>(Params)"
    assert tile_of(f"{product}; {reduction}") == (128, 64)
    assert tile_of(f"memset; {product}") == (128, 64)
    assert tile_of(f"{product}; {XMMA}") == (128, 64)
