"""Files that were written for nvcc: code of the host, its headers and its names, and what stays as it is."""

from pathlib import Path

import pytest

from samples import FRONT, ROOT, WRAPPED, needs_nvrtc, write_kernel
from tilewave.compiling import nvcc, nvrtc
from tilewave.compiling.declarations import Unreadable, declarations
from tilewave.kernel import includes
from tilewave.kernel.front_matter import Kernel, load_kernel

DRIVER = (WRAPPED / "driver.cu").read_text()


def kernel(folder: Path, body: str, more: str = "", name: str = "mine") -> Kernel:
    return load_kernel(write_kernel(folder, name, FRONT + more, body))


def adapted(body: str, **own: str) -> nvcc.Adapted:
    made = nvcc.adapted("mine.cu", body, own, "mine")
    assert made is not None
    return made


@needs_nvrtc
def test_a_file_with_its_driver_compiles_and_says_what_was_left_out(tmp_path: Path) -> None:
    one = kernel(tmp_path, DRIVER)
    made = nvrtc.compile_kernel(one, "sm_90", {})
    assert made.cubin, made.message
    assert list(made.resources) == ["_Z4minePKfS0_Pfiii"]
    start = one.text[: one.text.index("static std::vector")].count("\n") + 1
    assert f"kept (line {start}), counter (line {start + 1}), Timer (lines " in made.warning
    assert "--pre-include=tilewave_nvcc.h" in made.options


def test_lines_stay_where_they_are() -> None:
    made = adapted(DRIVER)
    before, after = DRIVER.splitlines(), made.text.splitlines()
    assert len(before) == len(after)
    for old, new in zip(before, after):
        assert new.strip() in ("", old.strip(), ";") or new in old
    assert after[-1] == " "
    gone = {part.name for part in made.left_out}
    assert gone == {"kept", "counter", "Timer", "told", "ceil_div", "launch", "main"}


NAMED = """
constexpr int twice(int a) { return 2 * a; }
typedef struct { float x; } Pair; enum Kind { ROW, COL };
#define SIZE twice(LIMIT)
const int LIMIT = 4; const int UNUSED = 4, *where = f();
void part(int) {}
__device__ void part(float) {}
__global__ void mine(Pair p) { part(p.x + SIZE + ROW); }
template __global__ void other<3>(int);
template void launch<3>(int);
int main() {}
"""


def test_what_device_code_names_stays() -> None:
    """Whatever it is, and whoever names it; a function of the host with a device overload goes."""
    made = adapted(NAMED)
    assert {part.name for part in made.left_out} == {"UNUSED", "part", "main", ""}
    assert "template __global__" in made.text and "template void launch" not in made.text


def test_headers_of_its_own_are_cut_with_it() -> None:
    header = "#pragma once\n#define RUN __global__ static\nvoid log(const char*);\nclass Log { std::string s; };\n"
    made = adapted('#include "log.h"\nRUN void mine() { std::min(1, 2); }\n', **{"log.h": header})
    assert made.own["log.h"].split("\n")[2:4] == [" " * 22, " " * 29]
    assert made.warning == "left out as code of the host: log (line 3), Log (line 4)"
    assert "RUN void mine" in made.text and "max(const T" in made.prelude


@needs_nvrtc
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("#include <cute/tensor.hpp>\nint main() {}\n", "front matter names more folders: compiler"),
        ("void f(int a) {\n#if 1\n if (a) {\n#else\n if (a > 1) {\n#endif\n }\n}\nint main() {}\n",
         "code of the host at line 13? put #ifndef __CUDACC_RTC__ before it"),
        ("__device__ int f() { return WIDTH; }\nint main() {}\n", "macros: {WIDTH: [VALUE]}"),
        ("__device__ int f() { register int a = 1; return a; }\nint main() {}\n", "options: [-std=c++14]"),
        ("int total;\n__device__ int f() { return total; }\nint main() {}\n",
         "total (line 13) was left out as code of the host"),
    ],
)  # fmt: skip
def test_a_message_says_what_to_write(tmp_path: Path, text: str, told: str) -> None:
    made = nvrtc.compile_kernel(kernel(tmp_path, text), "sm_90", {})
    assert made.cubin is None and told in made.message


@needs_nvrtc
def test_an_entry_that_is_an_expression(tmp_path: Path) -> None:
    """With macros in it; it is part of the key, and the symbol is found by it."""
    body = "namespace ns { template <int N, class T> __global__ void gemm(T* a) { a[0] = N; } }\n"
    one = kernel(tmp_path, body, "entry: ns::gemm<2 * TILE, float>\n")
    made = nvrtc.compile_kernel(one, "sm_90", {"TILE": 8})
    symbol = made.named["ns::gemm<2 * TILE, float>"]
    assert symbol == "_ZN2ns4gemmILi16EfEEvPT0_" and symbol in made.resources
    other = kernel(tmp_path, body, "entry: ns::gemm<TILE, float>\n")
    assert nvrtc.text_key(one, "sm_90", {}) != nvrtc.text_key(other, "sm_90", {})


def test_kernels_for_nvrtc_stay_as_they_are() -> None:
    """None of the shipped and foreign kernels shows a sign of nvcc, so their keys have nothing of it."""
    paths = [*(ROOT / "kernels").glob("*/*.cu"), *(ROOT / "tests" / "foreign").glob("*.cu")]
    assert len(paths) > 40
    for path in paths:
        text = path.read_text(encoding="utf-8")
        assert nvcc.adapted(path.name, text, includes.own(text, path.parent), path.stem) is None


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
    assert [(one.kind, one.names, one.scope) for one in declarations(text)] == [
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
