"""Files written for nvcc: host code, its names, and headers that NVRTC lacks."""

from pathlib import Path

import pytest

from samples import FRONT, ROOT, WRAPPED, needs_nvrtc, table, write_kernel
from tilewave.compiling import headers, nvcc, nvrtc
from tilewave.compiling.declarations import Unreadable, declarations
from tilewave.kernel import includes
from tilewave.kernel.front_matter import Kernel, load_kernel

CASES = table("compiling")

DRIVER = (WRAPPED / "driver.cu").read_text()


def kernel(folder: Path, body: str, more: str = "", name: str = "mine") -> Kernel:
    return load_kernel(write_kernel(folder, name, FRONT + more, body))


def adapted(body: str, **own_headers: str) -> nvcc.Adapted:
    text = nvcc.adapted("mine.cu", body, own_headers, "mine")
    assert text is not None
    return text


@needs_nvrtc
def test_a_file_with_its_driver_compiles_and_says_what_was_left_out(tmp_path: Path) -> None:
    loaded = kernel(tmp_path, DRIVER)
    outcome = nvrtc.compile_kernel(loaded, "sm_90", {})
    assert outcome.cubin, outcome.message
    assert list(outcome.resources) == ["_Z4minePKfS0_Pfiii"]
    start = loaded.text[: loaded.text.index("static std::vector")].count("\n") + 1
    assert f"kept (line {start}), counter (line {start + 1}), Timer (lines " in outcome.warning
    assert "--pre-include=tilewave_nvcc.h" in outcome.options


def test_lines_stay_where_they_are() -> None:
    cut = adapted(DRIVER)
    before, after = DRIVER.splitlines(), cut.text.splitlines()
    assert len(before) == len(after)
    for old, new in zip(before, after):
        assert new.strip() in ("", old.strip(), ";") or new in old
    assert after[-1] == " "
    gone = {part.name for part in cut.left_out}
    assert gone == {"kept", "counter", "Timer", "told", "ceil_div", "launch", "main"}


NAMED = (ROOT / "tests/data/named.cu").read_text()


def test_what_device_code_names_stays() -> None:
    """Every kind of declaration stays; a host function with a device overload is skipped."""
    cut = adapted(NAMED)
    assert {part.name for part in cut.left_out} == {"UNUSED", "part", "main", ""}
    assert "template __global__" in cut.text and "template void launch" not in cut.text


def test_headers_of_the_kernel_are_cut_too() -> None:
    header = "#pragma once\n#define RUN __global__ static\nvoid log(const char*);\nclass Log { std::string s; };\n"
    cut = adapted('#include "log.h"\nRUN void mine() { std::min(1, 2); }\n', **{"log.h": header})
    assert cut.headers["log.h"].split("\n")[2:4] == [" " * 22, " " * 29]
    assert cut.warning == "skipped as host code: log (line 3), Log (line 4)"
    assert "RUN void mine" in cut.text and "max(const T" in cut.prelude


@needs_nvrtc
@pytest.mark.parametrize(("text", "advice"), CASES["advice of messages"])
def test_a_message_says_what_to_write(tmp_path: Path, text: str, advice: str) -> None:
    outcome = nvrtc.compile_kernel(kernel(tmp_path, text), "sm_90", {})
    assert outcome.cubin is None and advice in outcome.message


@needs_nvrtc
def test_an_entry_that_is_an_expression(tmp_path: Path) -> None:
    """An entry may contain macros; it is part of the key, and gives the symbol."""
    body = "namespace ns { template <int N, class T> __global__ void gemm(T* a) { a[0] = N; } }\n"
    loaded = kernel(tmp_path, body, "entry: ns::gemm<2 * TILE, float>\n")
    outcome = nvrtc.compile_kernel(loaded, "sm_90", {"TILE": 8})
    symbol = outcome.named["ns::gemm<2 * TILE, float>"]
    assert symbol == "_ZN2ns4gemmILi16EfEEvPT0_" and symbol in outcome.resources
    other = kernel(tmp_path, body, "entry: ns::gemm<TILE, float>\n")
    assert nvrtc.text_key(loaded, "sm_90", {}) != nvrtc.text_key(other, "sm_90", {})


def test_kernels_for_nvrtc_stay_as_they_are() -> None:
    """No shipped or foreign kernel shows a sign of nvcc, so their keys do not depend on the adaptation."""
    paths = [*(ROOT / "kernels").glob("*/*.cu"), *(ROOT / "tests" / "foreign").glob("*.cu")]
    assert len(paths) > 40
    for path in paths:
        text = path.read_text(encoding="utf-8")
        kernel_headers = includes.kernel_headers(text, path.parent)
        assert nvcc.adapted(path.name, text, kernel_headers, path.stem) is None


def test_declarations() -> None:
    text = """
    template <class T, int N = (3 > 2)> __global__ __launch_bounds__(128, 2) void k(T (&a)[N]) { if (a) {} }
    extern "C" { int f(int (*g)(int), int b = h(1)); }
    namespace a::b { using c = int; struct alignas(16) V { float x[4]; } v, *w; }
    A::A() : x{1}, y(2) { z(); }
    bool operator==(V a, V b) { return true; }
    static const char* names[] = {"a;", "}"}, other = 'x';
    typedef void (*Call)(int);
    #if 0
    }}} not code
    #endif
    """
    assert [(each.kind, each.names, each.scope) for each in declarations(text)] == [
        ("function", ("k",), ()),
        ("function", ("f",), ()),
        ("other", ("c",), ("a", "b")),
        ("type", ("V", "v", "w"), ("a", "b")),
        ("function", ("A",), ()),
        ("function", ("operator",), ()),
        ("variable", ("names", "other"), ()),
        ("type", ("Call",), ()),
    ]
    with pytest.raises(Unreadable):
        declarations("void f() {\n#ifdef A\n if (a) {\n#else\n if (b) {\n#endif\n }\n}\n")


HEADERS = table("host_headers")
USES, HOST = HEADERS["uses"], HEADERS["host"].split()
KERNEL = 'extern "C" __global__ void NAME(float* a) { a[0] = VALUE; }\n'


def compiled(folder: Path, text: str, value: str = "1", front: str = FRONT) -> nvrtc.Compiled:
    if missing := nvrtc.available():
        pytest.skip(missing)
    kernel = load_kernel(write_kernel(folder, "mine", front, text + KERNEL.replace("VALUE", value)))
    return nvrtc.compile_kernel(kernel, "sm_90", {})


def written(folder: Path, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def including(*names: str) -> str:
    return "".join(f"#include <{name}>\n" for name in names)


def test_headers_of_the_host_and_of_the_standard_library(tmp_path):
    names = sorted({*HOST, *nvcc.TABLES["standard"].split(), *USES})
    outcome = compiled(tmp_path, including(*names), " + ".join(f"({use})" for use in USES.values()))
    assert outcome.cubin, outcome.message


def test_each_header_suffices_and_the_kernels_folder_has_priority(tmp_path):
    assert compiled(tmp_path, including("limits"), USES["limits"]).cubin
    (tmp_path / "limits").write_text("#define MINE 3\n")
    assert compiled(tmp_path, including("limits"), "MINE").cubin


def test_a_header_of_crt_hides_none_of_another_folder(tmp_path, monkeypatch):
    """Both wheels have an mma.h; they may lie in different site folders."""
    written(tmp_path, {"a/crt/mma.h": "#error of crt\n", "b/mma.h": "// the runtime's\n"})
    monkeypatch.setattr(headers, "folders", lambda: (tmp_path / "a", tmp_path / "b"))
    assert headers.toolkit("#include <mma.h>\n", {}).texts == {"mma.h": "// the runtime's\n"}


@needs_nvrtc
def test_stand_ins_are_for_files_of_a_kernel_alone(tmp_path):
    """CUDA's headers name <type_traits> and others for other compilers, which a kernel's key omits."""
    assert "vector" in headers.toolkit("#include <vector>\n", {}, nvcc=True).texts
    (tmp_path / "own.cuh").write_text("#include <vector>\n")
    text = '#include "own.cuh"\n'
    kernel_headers = includes.kernel_headers(text, tmp_path)
    assert "vector" in headers.toolkit(text, kernel_headers, nvcc=True).texts
    plain = headers.toolkit("#include <cuda_bf16.h>\n", {}, nvcc=True).texts
    assert "cuda_bf16.h" in plain and not {*filter(includes.of_host, plain)} - {*includes.STAND_INS}


def test_short_names_of_glibc(tmp_path):
    value = "uint(1) + ushort(2) + ulong(3)"
    assert compiled(tmp_path, "", value).cubin
    assert compiled(tmp_path, "typedef unsigned int uint;\n", value).cubin
    plain, used = (compiled(tmp_path, "// uint\n", text).options for text in ("1", value))
    assert set(used) - set(plain) == {f"--pre-include={nvcc.PRELUDE}"}


def test_cub(tmp_path):
    """The whole library compiles for device code."""
    value = "cub::BlockReduce<float, 128>(*(cub::BlockReduce<float, 128>::TempStorage*)a).Sum(1)"
    outcome = compiled(tmp_path, f"{including('cub/cub.cuh')}int main() {{ return 0; }}\n", value)
    assert outcome.cubin, outcome.message


LIBRARY = CASES["files of a library"]
FILE = """\
#include <lib/config.hpp>
#include <lib/more/sizes.hpp>
#include <lib/launch.hpp>
int main() { std::cout << launched(3); }
"""


def test_a_library_that_knows_nvrtc_stays_as_it_is(tmp_path):
    """Its functions without an annotation are device functions; host-only code is skipped."""
    written(tmp_path / "include", LIBRARY)
    front = FRONT + "compiler: {include: [include]}\n"
    outcome = compiled(tmp_path, FILE, "twice<3>() + seven() + both(1)", front)
    assert outcome.cubin, outcome.message
    assert nvcc.UNANNOTATED in outcome.options
    line = (tmp_path / "mine.cu").read_text().partition("int main")[0].count("\n") + 1
    assert outcome.warning == f"skipped as host code: main (line {line}), 1 of launch.hpp"


def test_a_guard_is_no_library(tmp_path):
    """Outside of a guard as in `nvcc.GUARD`, a header is cut like any other."""
    text = "#ifndef __CUDACC_RTC__\n#include <iostream>\n#endif\n"
    text += "inline void told() { fprintf(stderr, 0); }\n__device__ int one() { return 1; }\n"
    written(tmp_path, {"common/util.cuh": text})
    outcome = compiled(tmp_path, '#include "common/util.cuh"\n', "one()")
    assert outcome.cubin and nvcc.UNANNOTATED not in outcome.options


def test_two_headers_of_the_same_name(tmp_path):
    """NVRTC has no folders, so a header beside its includer is requested by its full name."""
    written(tmp_path, LIBRARY)
    by_name = includes.kernel_headers(
        "#include <lib/more/sizes.hpp>\n#include <tile.h>\n", tmp_path
    )
    assert {"tile.h", "lib/more/tile.h", "limits.hpp"} <= set(by_name)
    assert '#include "limits.hpp"\n#include "lib/more/tile.h"' in by_name["lib/more/sizes.hpp"]
    assert by_name["tile.h"] == LIBRARY["tile.h"] and "SIDE" in by_name["lib/more/tile.h"]


def test_a_header_with_the_name_of_a_cuda_header(tmp_path):
    """It lies beside a header of the kernel, and CUDA's headers still get CUDA's."""
    texts = {"lib/half.cuh": '#include "cuda_fp8.hpp"\n', "lib/cuda_fp8.hpp": "#define MINE 3\n"}
    written(tmp_path, texts)
    text = '#include "lib/half.cuh"\n' + including("cuda_fp8.h")
    outcome = compiled(tmp_path, text, "MINE + float(__nv_fp8_e4m3(a[1]))")
    assert outcome.cubin, outcome.message
