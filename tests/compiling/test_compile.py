"""Compiling with NVRTC, without a GPU: changes of a cubin, positions of errors, contents of a listing."""

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from samples import BODY, FRONT, ROOT, config, needs_nvrtc, write_kernel
from tilewave.compiling import cubin, mangling, nvrtc, sass, source
from tilewave.gpu import reference
from tilewave.gpu.device import CudaError
from tilewave.kernel import result
from tilewave.kernel.digests import host_code, source_digest
from tilewave.kernel.front_matter import load_kernel
from tilewave.kernel.variants import variant
from tilewave.pipeline import compiling, project
from tilewave.records.store import Store

pytestmark = needs_nvrtc

MACROS = {"REAL": "f32", "TILE": 16}
COMPILE = """
import hashlib, sys
from pathlib import Path
from tilewave.compiling import nvrtc
from tilewave.kernel.front_matter import load_kernel
done = nvrtc.compile_kernel(load_kernel(Path(sys.argv[1])), "sm_90", {"REAL": "f32", "TILE": 16})
print(done.sha256)
"""


def compile_text(folder, body=BODY, **macros):
    kernel = load_kernel(write_kernel(folder, body=body))
    return nvrtc.compile_kernel(kernel, "sm_90", MACROS | macros)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return compile_text(tmp_path_factory.mktemp("plain"))


def test_cubin_and_resources(plain):
    assert plain.cubin.startswith(b"\x7fELF")
    assert (plain.message, plain.version) == ("", nvrtc.version())
    assert "-DTILE=16" in plain.options
    resources = plain.resources["sample"]
    assert resources["static_shared_bytes"] >= 16 * 4
    assert 8 <= resources["registers"] <= 255
    assert resources["spill_store_bytes"] == resources["stack_bytes"] == 0


def test_comment_changes_neither_code_nor_bytes(plain, tmp_path):
    """A comment that moves no line keeps the bytes; one that does changes only debug lines."""
    same_line = compile_text(tmp_path / "1", BODY.replace("REAL sum = 0;", "REAL sum = 0; // note"))
    moved = compile_text(tmp_path / "2", "// one line more\n" + BODY)
    assert same_line.sha256 == plain.sha256
    assert moved.sha256 != plain.sha256
    assert cubin.code_digest(moved.cubin) == cubin.code_digest(plain.cubin)


@pytest.mark.parametrize(
    ("before", "after"),
    [("sum = 0;", "sum = 1;"), ("i = 0", "i = 1"), ("[TILE];", "[2 * TILE];"), ("f32", "f64")],
)
def test_code_and_macros_change_the_digest(plain, tmp_path, before, after):
    body, real = (BODY, after) if before == "f32" else (BODY.replace(before, after), "f32")
    changed = compile_text(tmp_path, body, REAL=real)
    assert cubin.code_digest(changed.cubin) != cubin.code_digest(plain.cubin)


def test_bytes_do_not_depend_on_where_the_compiler_stands(tmp_path):
    """Another working folder, checkout or process gives the same cubin."""
    environ, cubins = {"PYTHONPATH": str(ROOT / "workflow")}, set()
    for place in ("one", "two/deeper"):
        path = write_kernel(tmp_path / place / "kernels")
        command = [sys.executable, "-c", COMPILE, str(path)]
        cubins.add(subprocess.check_output(command, cwd=tmp_path / place, env=environ))
    assert len(cubins) == 1


@pytest.mark.parametrize("call", ["nvrtcAddNameExpression", "nvrtcGetCUBIN", "nvrtcGetLoweredName"])
def test_a_failing_call_is_an_error_and_the_program_is_closed(monkeypatch, call):
    from cuda.bindings import nvrtc as library

    destroy, closed = library.nvrtcDestroyProgram, []
    monkeypatch.setattr(library, call, lambda *_: (library.nvrtcResult(11), b""))
    monkeypatch.setattr(
        library, "nvrtcDestroyProgram", lambda program: closed.append(1) or destroy(program)
    )
    text, flags = "template <int N> __global__ void kernel() {}", ["-arch=sm_90"]
    with pytest.raises(RuntimeError, match=f"{call}.*INTERNAL_ERROR"):
        nvrtc._run("k.cu", text, {}, flags, ["kernel<2>"])
    assert closed


def test_headers_of_the_kernels_folder(tmp_path):
    write_kernel(tmp_path)
    (tmp_path / "scale.cuh").write_text("#define SCALE 3\n")
    body = '#include "scale.cuh"\n' + BODY.replace("REAL sum = 0;", "REAL sum = SCALE;")
    kernel = load_kernel(write_kernel(tmp_path, body=body))
    first = nvrtc.compile_kernel(kernel, "sm_90", MACROS)
    key = nvrtc.cache_key(kernel, "sm_90", MACROS)
    assert first.message == ""
    (tmp_path / "scale.cuh").write_text("#define SCALE 4\n")
    # The compiled text is that of the key, although the file has changed meanwhile.
    assert nvrtc.compile_kernel(kernel, "sm_90", MACROS).sha256 == first.sha256
    kernel = load_kernel(kernel.path)
    assert nvrtc.cache_key(kernel, "sm_90", MACROS) != key
    second = nvrtc.compile_kernel(kernel, "sm_90", MACROS)
    assert cubin.code_digest(second.cubin) != cubin.code_digest(first.cubin)
    # A comment changes the source, which is compiled again: figures keep the digest of the code.
    (tmp_path / "scale.cuh").write_text("/* or\nthree\nlines */\n#define SCALE 4\n")
    noted = load_kernel(kernel.path)
    assert source_digest(noted) != source_digest(kernel)
    third = nvrtc.compile_kernel(noted, "sm_90", MACROS)
    assert cubin.code_digest(third.cubin) == cubin.code_digest(second.cubin)


def identities(folder):
    """Return the digests of a kernel with a header, and of one without: source, cache key, job."""
    block = {"kernels": ["sample", "other"], "macros": "defaults", "shapes": [64]}
    loaded = project.load(config(block, kernel_folders=[str(folder)]), "test.yaml")
    ways = source_digest, lambda source_kernel: nvrtc.cache_key(source_kernel, "sm_90", MACROS)
    return {name: [way(kernel) for way in ways] for name, kernel in loaded.kernels.items()}


@pytest.mark.parametrize("header", ["scale.cuh", "inner.cuh"])
def test_a_header_is_part_of_its_kernels_source(tmp_path, header):
    """A header that only another header includes counts too; kernels without it keep their digests."""
    (tmp_path / "scale.cuh").write_text('#include "inner.cuh"\n#define SCALE (2 * INNER)\n')
    (tmp_path / "inner.cuh").write_text("#define INNER 3\n")
    write_kernel(tmp_path, body='#include "scale.cuh"\n' + BODY)
    write_kernel(tmp_path, "other")
    before = identities(tmp_path)
    assert identities(tmp_path) == before
    text = (tmp_path / header).read_text()
    (tmp_path / header).write_text(text + "#define MORE 1\n")
    after = identities(tmp_path)
    assert all(new != old for new, old in zip(after["sample"], before["sample"]))
    assert after["other"] == before["other"]
    (tmp_path / header).write_text(text)
    assert identities(tmp_path) == before


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (BODY.replace("REAL sum = 0;", "REAL sum = 0"), "expected"),
        (BODY.replace("alpha;", "alhpa;"), "alhpa"),
        ('#include "nowhere.cuh"\n' + BODY, "nowhere.cuh"),
        ("static_assert(TILE == 99, \"TILE must be 99\");\n" + BODY, "TILE must be 99"),
    ],
)  # fmt: skip
def test_error_has_file_and_line(tmp_path, body, expected):
    path = write_kernel(tmp_path, body=body)
    done = nvrtc.compile_kernel(load_kernel(path), "sm_90", MACROS)
    assert done.cubin is None
    file, line, message = done.message.split(":", 2)
    assert file == "sample.cu"
    assert expected in message
    assert "\n" not in done.message
    text = path.read_text().splitlines()
    # nvcc reports the line of the mistake or the next one.
    near = "\n".join(text[int(line) - 2 : int(line)])
    assert any(word in near for word in ("REAL sum", "alhpa", "nowhere", "static_assert"))


@pytest.mark.parametrize(
    ("macro", "shared", "message"),
    [
        ("TILE", 1 << 20, "^ptxas error: Entry function 'mine::large<32>' uses too much .*shared_bytes"),
        ("T", 1, "the macro T needs another name"),
    ],
)  # fmt: skip
def test_what_is_no_error_of_a_line(tmp_path, macro, shared, message):
    front = f"title: t\noperation: copy\nmacros: {{{macro}: [32]}}\nentry: mine::large<{macro}>\n"
    body = "namespace mine { template <int N> __global__ void large(float* a) {\n"
    body += f"__shared__ float s[N * {shared}]; s[threadIdx.x] = *a; __syncthreads(); *a = s[9]; }} }}\n"
    kernel = load_kernel(write_kernel(tmp_path, front=front, body=body))
    assert re.search(message, nvrtc.compile_kernel(kernel, "sm_90", {macro: 32}).message)


def test_a_header_and_an_architecture_are_named_in_messages(tmp_path):
    (tmp_path / "helper.cuh").write_text("#pragma once\nint broken(\n")
    done = compile_text(tmp_path, body='#include "helper.cuh"\n' + BODY)
    assert done.message.startswith("helper.cuh:"), done.message
    done = nvrtc.compile_kernel(load_kernel(write_kernel(tmp_path)), "sm_999", MACROS)
    assert done.cubin is None and "arch" in done.message


def test_names_of_functions():
    demangled = "in _ZN4mine4raceILi64EfEEvPKT0_PS1_i and _Znothing, _ZN12_GLOBAL__N_13addEPf"
    assert mangling.plain(demangled) == "in mine::race<64, float> and _Znothing, {anonymous}::add"


def test_listing_maps_instructions_to_lines(plain, tmp_path):
    if sass.disassembler() is None:
        pytest.skip("no nvdisasm")
    path = tmp_path / "sample.cubin"
    path.write_bytes(plain.cubin)
    source = write_kernel(tmp_path).read_text().splitlines()
    listing = sass.parse(sass.as_text(path))
    assert {instruction.function for instruction in listing} == {"sample"}
    assert [instruction.address for instruction in listing] == list(range(0, 16 * len(listing), 16))
    assert stored_at_their_line(listing, source)
    products = [row.line("sample.cu") for row in listing if row.opcode == "FFMA"]
    assert any("sum +=" in source[line - 1] for line in products)


def stored_at_their_line(listing, source):
    lines = [row.line("sample.cu") for row in listing if row.opcode.startswith("STS")]
    return lines and all("held[threadIdx.x] = alpha" in source[line - 1] for line in lines)


def documents(tmp_path, store, body=BODY, front=FRONT):
    """Return the compilations of both dtypes of a kernel, and the variants compiled now."""
    kernel = load_kernel(write_kernel(tmp_path / "kernels", body=body, front=front))
    variants = [variant(kernel, {"REAL": real}, kernel.path, "macros") for real in ("f32", "f64")]
    compilations = compiling.Compilations(store, None, tmp_path / "cubins")
    tasks = [compiling.Task(chosen, "sm_90") for chosen in variants]
    waiting = [task for task in tasks if compilations.missing_cubin(task.variant, task.wanted)]
    compiled = [task.variant.id for task, _ in compiling.compiled(waiting, store, 2)]
    for chosen in variants:
        compilations.provide(chosen, "sm_90")
    return {chosen.id: compilations.entry(chosen, "sm_90") for chosen in variants}, compiled


def test_what_the_machine_lacks_is_no_fault_of_a_kernel(tmp_path, store, monkeypatch):
    """A process that can start no thread ends the command, and nothing is stored."""

    def threadless(*_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(nvrtc, "compile_kernel", threadless)
    with pytest.raises(RuntimeError, match="new thread"):
        documents(tmp_path, store)
    assert not list(store.root.rglob("*.json"))


def test_another_entry_compiles_nothing(tmp_path, store):
    """The front matter chooses the kernel of a file, and its compilation stays valid."""
    more = BODY.replace("NAME", "other") + BODY
    entries, compiled = documents(tmp_path, store, more, FRONT + "entry: nothing\n")
    assert len(compiled) == 2 and "code" not in entries["sample"]
    assert entries["sample"]["status"] == result.FAILED_TO_COMPILE
    assert "none of the file's kernels, which are other, sample" in entries["sample"]["reason"]
    for name in ("sample", "other"):
        entries, compiled = documents(tmp_path, store, more, FRONT + f"entry: {name}\n")
        assert compiled == [] and entries["sample"]["symbol"] == name
        assert entries["sample"]["status"] == result.OK and entries["sample"]["code"]


def test_a_recorded_listing_is_never_executed(tmp_path, store):
    """A recording may be wrong: beside a cubin lies what nvdisasm says, also where a page had the recorded one."""
    entry = documents(tmp_path, store)[0]["sample"]
    wrong = SimpleNamespace(compiled={"sample.sm_90": entry}, listing=lambda key: ("// wrong", {}))
    variants = [variant(load_kernel(tmp_path / "kernels" / "sample.cu"), {}, "", "")]
    Path(entry["sass"]).write_text("// wrong")
    for kept, text in (
        (store, sass.as_text(Path(entry["cubin"]))),
        (Store(tmp_path / "new"), None),
    ):
        compilations = compiling.Compilations(kept, wrong, tmp_path / kept.root.name)
        again = compilations.entry(variants[0], "sm_90")
        assert compilations.listing(variants[0], again) == (text or "// wrong")
        compilations.provide(variants[0], "sm_90")
        assert text is None or sass.of_cubin(Path(again["cubin"])) == text
        assert Path(again["sass"]).is_file() == Path(again["cubin"]).is_file() == bool(text)


def test_stage_compiles_once_and_mends_its_cache(tmp_path, store):
    entries, compiled = documents(tmp_path, store)
    first = entries["sample-realf64"]
    assert first["status"] == result.OK
    assert sorted(compiled) == ["sample", "sample-realf64"]
    assert Path(first["cubin"]).is_file()
    for lost in ([], ["sample-realf64"]):
        if lost:
            store.blob("compiled", first["key"], ".cubin").unlink()
        again, compiled = documents(tmp_path, store)
        assert compiled == lost and again["sample-realf64"]["sha256"] == first["sha256"]


@pytest.mark.parametrize(
    ("body", "again"),
    [
        ("// one line more\n" + BODY, []),
        (BODY.replace("REAL sum = 0;", "REAL sum = 0; /* a\nnote */"), []),
        (BODY.replace("REAL sum = 0;", "REAL sum = 1;"), ["sample", "sample-realf64"]),
    ],
    ids=["line", "block", "code"],
)
def test_a_comment_compiles_nothing_again_and_moves_the_lines(tmp_path, store, body, again):
    documents(tmp_path, store)
    entries, compiled = documents(tmp_path, store, body=body)
    assert sorted(compiled) == again
    source = (tmp_path / "kernels" / "sample.cu").read_text().splitlines()
    assert stored_at_their_line(sass.parse(Path(entries["sample"]["sass"]).read_text()), source)


def test_what_looks_like_a_comment_in_a_literal_is_code():
    text = 'a = "// no /* comment"; // one\n/* two\nlines */ b = \'"\'; // "c"\n\nR"x(// raw)x";\n'
    assert source.code_lines(text) == (
        (1, 'a = "// no /* comment";'), (3, "b = '\"';"), (5, 'R"x(// raw)x";'),
    )  # fmt: skip
    # A line number is code if the code uses it.
    assert source.code("// x\nint a;") == source.code("int a;")
    assert source.code("// x\nassert(a);") != source.code("assert(a);")


def test_variant_that_does_not_compile_leaves_the_others(tmp_path, store):
    body = BODY.replace("REAL sum = 0;", 'static_assert(sizeof(REAL) == 4, "f32"); REAL sum = 0;')
    entries, _ = documents(tmp_path, store, body=body)
    good, bad = (entries[name] for name in ("sample", "sample-realf64"))
    assert good["status"] == result.OK
    assert bad["status"] == result.FAILED_TO_COMPILE
    assert bad["reason"].startswith("sample.cu:")
    assert "cubin" not in bad


def test_host_kernel_digest_ignores_comments_and_front_matter(tmp_path):
    front = "title: t\noperation: matmul\nprovider: cpu\ndtypes: {a: f32}\nentry: f\n"
    code = "def f(a, b, c, alpha, beta):\n    c[:] = alpha * (a @ b)\n"

    def digest(text):
        path = tmp_path / "host.py"
        path.write_text(text)
        return host_code(load_kernel(path))

    plain = digest(f'"""---\n{front}---"""\n{code}')
    assert digest(f'"""---\n{front}idea: other\n---"""\n# note\n{code}') == plain
    assert digest(f'"""---\n{front}---"""\n{code.replace("@", "*")}') != plain


def test_symbol() -> None:
    """A kernel without extern "C" is matched by its name, unless that is ambiguous."""
    names = ["_ZN4mine5sgemmILi16EEEvPKfS2_Pfiii", "_Z7sgemm_bPf", "_Z14gemm_of_squarePf", "other"]
    assert nvrtc.symbol("other", names) == "other"
    assert nvrtc.symbol("sgemm", names) == names[0]
    assert nvrtc.symbol("sgemm", [*names, "sgemm"]) == "sgemm"
    with pytest.raises(nvrtc.NoSymbol, match="ambiguous: it may be sgemm, mine::sgemm<16>"):
        nvrtc.symbol("sgemm", [*names, "_Z5sgemmPf"])
    for name, others, message in (
        ("gemm", names, "kernels, which are gemm_of_square, sgemm_b, mine::sgemm<16>"),
        ("gemm_of_squar", names, "kernels, which are gemm_of_square"),
        ("g", ["_Z1gPf", "_Z1gPd"], "it may be _Z1gPd, _Z1gPf"),
        ("sgemm", [], "that is instantiated"),
    ):
        with pytest.raises(nvrtc.NoSymbol, match=message):
            nvrtc.symbol(name, others)


def test_helper_kernels_are_compiled_once(tmp_path):
    assert reference.compile_support("sm_90", tmp_path).startswith(b"\x7fELF")
    (kept,) = tmp_path.iterdir()
    kept.write_bytes(b"kept")
    assert reference.compile_support("sm_90", tmp_path) == b"kept"
    with pytest.raises(CudaError, match="NVRTC"):
        reference.compile_support("sm_1", tmp_path)
