"""Headers that files written for nvcc include, and NVRTC has not."""

from __future__ import annotations

from pathlib import Path

import pytest

from samples import FRONT, write_kernel
from tilewave.compiling import headers, nvrtc
from tilewave.kernels import load_kernel
from tilewave.variants import variant

pytestmark = pytest.mark.skipif(bool(nvrtc.available()), reason="no NVRTC here")
USES = {
    "algorithm": "std::min(1, 2) + std::max(1, 2)",
    "array": "std::array<int, 2>{1, 2}[1]",
    "cfloat": "FLT_MAX + DBL_EPSILON",
    "climits": "INT_MAX",
    "cmath": "std::sqrt(2.f) + expf(1)",
    "complex": "std::complex<float>(1, 2).real()",
    "cstddef": "std::size_t(3) + sizeof(std::byte)",
    "cstdint": "std::uint32_t(3) + uint8_t(4)",
    "float.h": "FLT_MIN",
    "functional": "std::plus<int>()(1, 2)",
    "initializer_list": "std::initializer_list<int>{1, 2}.size()",
    "limits": "std::numeric_limits<float>::max()",
    "limits.h": "UINT_MAX",
    "optional": "std::optional<int>(3).value()",
    "stddef.h": "sizeof(size_t)",
    "tuple": "std::get<0>(std::tuple<int, int>(1, 2))",
    "type_traits": "std::is_same<int, int>::value + std::is_same_v<int, float>",
    "utility": "std::move(1) + std::pair<int, int>(1, 2).first",
}
KERNEL = 'extern "C" __global__ void NAME(float* a) { a[0] = VALUE; }\n'


def compiled(folder: Path, text: str, value: str = "1") -> nvrtc.Compiled:
    kernel = load_kernel(write_kernel(folder, "mine", FRONT, text + KERNEL.replace("VALUE", value)))
    return nvrtc.compile_kernel(kernel, "sm_90", {})


def including(*names: str) -> str:
    return "".join(f"#include <{name}>\n" for name in names)


def test_headers_of_the_host_and_of_the_standard_library(tmp_path):
    names = sorted({*headers.HOST, *headers.STANDARD, *USES})
    made = compiled(tmp_path, including(*names), " + ".join(f"({one})" for one in USES.values()))
    assert made.cubin, made.message


@pytest.mark.parametrize("name", ["limits", "cfloat", "cstdint"])  # the others take a second each
def test_each_is_enough_for_itself(tmp_path, name):
    made = compiled(tmp_path, including(name), USES[name])
    assert made.cubin, made.message


def test_what_the_kernels_folder_has_comes_first(tmp_path):
    (tmp_path / "limits").write_text("#define MINE 3\n")
    assert compiled(tmp_path, including("limits"), "MINE").cubin


def test_stand_ins_are_for_a_kernels_own_files_alone(tmp_path):
    """CUDA's headers name <type_traits> and others for other compilers: a kernel's key is without."""
    assert "type_traits" in headers.closure("#include <type_traits>\n")
    (tmp_path / "own.cuh").write_text("#include <limits>\n")
    assert "limits" in headers.closure('#include "own.cuh"\n', tmp_path)
    plain = headers.closure("#include <cuda_bf16.h>\n")
    assert not set(plain) & (set(headers.OF_A_KERNEL) - set(headers.STAND_INS))


def test_short_words_of_glibc(tmp_path):
    value = "uint(1) + ushort(2) + ulong(3)"
    assert compiled(tmp_path, "", value).cubin
    assert compiled(tmp_path, "typedef unsigned int uint;\n", value).cubin
    kernels = [
        load_kernel(
            write_kernel(tmp_path, name, FRONT, f"// uint\n{KERNEL}".replace("VALUE", told))
        )
        for name, told in (("plain", "1"), ("short_words", value))
    ]
    first, second = (
        nvrtc.options(one, "sm_90", variant(one, {}, "config", "macros").names) for one in kernels
    )
    assert set(second) - set(first) == {"--pre-include=host_words.h"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "#include <cute/tensor.hpp>\n",
            'cannot open source file "cute/tensor.hpp"; in front matter',
        ),
        (
            "#include <cub/cub.cuh>\n",
            "of cub include what is used, as <cub/block/block_reduce.cuh>",
        ),
        (
            "#include <vector>\nvoid f(std::vector<int>);\n",
            "host code has to stand between `#ifndef __CUDACC_RTC__`",
        ),
        ("__host__ void f() {}\n", "host code has to stand between `#ifndef __CUDACC_RTC__`"),
    ],
)
def test_a_message_says_what_to_write(tmp_path, text, told):
    made = compiled(tmp_path, text)
    assert made.cubin is None and told in made.message
