"""Front matter: good files load, bad ones end in one line with file, key, problem and remedy."""

import re

import pytest
import yaml

from samples import BODY, FRONT, ROOT, config, refused, table, write_kernel
from tilewave.basics.errors import UserError
from tilewave.kernel.discovery import find_kernels
from tilewave.kernel.front_matter import load_kernel
from tilewave.kernel.trial import try_out
from tilewave.kernel.variants import choices, variant

SHAPE = {"m": 1, "n": 1, "k": 1}
COPY = {"kernels": ["copy"], "operation": "copy", "shapes": [64]}


def refusal(path):
    """Return the one-line message of a run whose config names this file, though no study needs it."""
    data = config(COPY, kernel_folders=["kernels/operations", str(path)])
    return refused(data, "config/test.yaml", path)


def default(folder, front=FRONT):
    """Return the default variant of a kernel with this front matter."""
    return variant(load_kernel(write_kernel(folder, front=front)), {}, "here", "macros")


def test_every_shipped_kernel_loads_and_has_a_legal_default():
    kernels = find_kernels([ROOT / "kernels"])
    assert {"matmul_naive", "hgemm_wmma_staged", "cublas", "matmul_cpu"} <= set(kernels)
    for kernel in kernels.values():
        assert variant(kernel, {}, kernel.path, "macros").id == kernel.name


def test_a_folder_laid_out_as_ours_has_kernels_in_its_parts_and_headers_beside_them(tmp_path):
    folder = tmp_path / "kernels"
    body = '#include "shared.cuh"\n' + BODY
    for part, name in (("ladder", "first"), ("operations", "second"), (".", "mine")):
        write_kernel(folder / part, name, body=body)
    # Other folders are looked into where they are named.
    assert list(find_kernels([folder])) == ["mine"]
    assert not load_kernel(folder / "ladder" / "first.cu").headers
    for part in ("probes", "include"):
        (folder / part).mkdir()
    (folder / "include" / "shared.cuh").write_text("// shared\n")
    kernels = find_kernels([folder])
    assert list(kernels) == ["mine", "first", "second"]
    assert all(kernel.headers == {"shared.cuh": "// shared\n"} for kernel in kernels.values())
    assert list(find_kernels([folder / "ladder"])) == ["first"]


def test_good_file(tmp_path):
    kernel = load_kernel(write_kernel(tmp_path))
    assert (kernel.name, kernel.entry, kernel.provider) == ("sample", "sample", "nvrtc")
    plan = variant(kernel, {"TILE": 32}, "here", "macros").plan({"m": 65, "n": 32, "k": 1}, {})
    assert (plan.grid, plan.block, plan.tile) == ((1, 3, 1), (32, 32, 1), (32, 32, 1))
    assert plan.working_blocks == plan.blocks == 3


MISTAKES = yaml.safe_load((ROOT / "tests/data/front_matter_mistakes.yaml").read_text())


@pytest.mark.parametrize(
    ("file", "mistake"),
    [(file, mistake) for file, mistakes in MISTAKES.items() for mistake in mistakes],
)
def test_mistakes_are_found_before_anything_runs(tmp_path, file, mistake):
    path = tmp_path / file.rpartition("/")[2]
    front, fence, body = (ROOT / "tests" / file).read_text().partition("---*/")
    text = f"{mistake.get('front', front)}{mistake.get('more', '')}\n{fence}{body}"
    old, new = mistake.get("change", (fence, fence))
    assert old in text
    path.write_text(text.replace(old, new))
    problem = refusal(path).removeprefix(f"{path}: ")
    assert re.match(rf"{re.escape(mistake['key'])}\b", problem) and len(problem) < 500, problem
    assert mistake.get("remedy", "") in problem


@pytest.mark.parametrize("number", ["9" * 5000, "0b" + "1" * 2000], ids=len)
def test_numbers_of_thousands_of_digits(tmp_path, number):
    front = f"{FRONT}shared_bytes: {number}\n"
    assert len(refusal(write_kernel(tmp_path, front=front))) < 500


@pytest.mark.parametrize("text", ["", "extern int x;\n/*---\ntitle: t\n---*/", "/*---\ntitle: t\n"])
def test_missing_fence(tmp_path, text):
    path = tmp_path / "bare.cu"
    path.write_text(text)
    assert "/*---" in refusal(path)


def test_yaml_kernel_must_name_its_provider(tmp_path):
    path = tmp_path / "vendor.yaml"
    path.write_text("title: t\noperation: matmul\n")
    assert "cublaslt" in refusal(path)


def test_two_files_of_the_same_name(tmp_path):
    write_kernel(tmp_path / "one")
    write_kernel(tmp_path / "two")
    with pytest.raises(UserError, match=r"has the same name\. Rename"):
        find_kernels([tmp_path / "one", tmp_path / "two"])


def test_requirements_become_sentences(tmp_path):
    chosen = default(tmp_path, FRONT.replace("{arch: 75}", "{arch: 80, n: 8}"))
    shape = {"m": 1, "n": 130, "k": 1}
    assert chosen.supports(shape, {"arch": 90}) == "n = 130 is not a multiple of 8"
    assert chosen.supports(shape, {"arch": 75}) == "needs compute capability 8.0 or later"
    assert chosen.supports(shape | {"n": 128}, {"arch": 90}) == ""


def test_a_kernel_names_what_an_architecture_must_have(tmp_path):
    conditions = "conditions: [wgmma, TILE <= warps_per_sm]"
    chosen = default(tmp_path, FRONT.replace("{arch: 75}", f"{{arch: 75, {conditions}}}"))
    try_out(chosen)
    assert chosen.supports(SHAPE, {"arch": 90}) == chosen.supports(SHAPE, {}) == ""
    for arch in (89, 100, 120):
        assert chosen.supports(SHAPE, {"arch": arch}).startswith("needs wgmma, which")


@pytest.mark.parametrize("more", table("kernel")["good expressions"])
def test_good_expressions_pass_the_trial(tmp_path, more):
    kernel = load_kernel(write_kernel(tmp_path, front=f"{FRONT}{more}\n"))
    for chosen in choices(kernel, "product", "here", "macros"):
        try_out(chosen)


def test_trial_keeps_to_the_requirements(tmp_path):
    """Sizes that a kernel refuses are no mistake in its grid."""
    front = FRONT.replace("ceil(m / TILE)", "m // 1000")
    for requires in ("{m: 1000}", "{conditions: [m >= 1000]}", "{conditions: [false]}"):
        try_out(default(tmp_path, front.replace("{arch: 75}", requires)))


LET = """\
let: {small: 16, tiles: ceil(n / TILE) * ceil(m / TILE), waves: ceil(tiles / sms), shared: waves * TILE}
where: [TILE == small or REAL == f32]
shared_bytes: shared
working_blocks: tiles
"""


def test_let_names_what_later_expressions_use(tmp_path):
    front = FRONT.replace('["ceil(n / TILE)", "ceil(m / TILE)"]', '["min(sms, tiles)"]')
    front = front.replace("arch: 75", "conditions: [shared <= shared_per_block_optin]")
    kernel = load_kernel(write_kernel(tmp_path, front=front + LET))
    ids = {chosen_variant.id for chosen_variant in choices(kernel, "product", "here", "macros")}
    assert ids == {"sample", "sample-tile32", "sample-realf64"}
    chosen = variant(kernel, {}, "here", "macros")
    shape, device = {"m": 33, "n": 64, "k": 1}, {"sms": 5}
    plan = chosen.plan(shape, device)
    assert (plan.grid, plan.working_blocks, plan.shared_bytes) == ((5, 1, 1), 12, 48)
    assert chosen.supports(shape, device) == ""  # what is not known of the device forbids nothing
    assert chosen.supports(shape, device | {"shared_per_block_optin": 40}) == (
        "needs shared <= shared_per_block_optin (shared = 48, shared_per_block_optin = 40)"
    )
    assert chosen.unknown_device({}) == "sms"
    assert chosen.unknown_device(device) == ""


@pytest.mark.parametrize(
    "key", ["grid: [n, sms]", "grid: [few]", "working_blocks: few", "cluster: [few]"]
)
def test_geometry_that_asks_for_the_device(tmp_path, key):
    """An expression may use the device itself or through `let`."""
    lines = [line for line in FRONT.splitlines() if not line.startswith(key.split(":")[0])]
    chosen = default(tmp_path, "\n".join([*lines, "let: {half: sms // 2, few: half * n}", key, ""]))
    assert chosen.unknown_device({}) == "sms"
    assert chosen.unknown_device({"sms": 132}) == ""


@pytest.mark.parametrize("name", ["my-kernel", "Sample", "2nd", "all"])
def test_file_names_that_are_no_names(tmp_path, name):
    path = write_kernel(tmp_path, name, body=BODY.replace("NAME", "sample"))
    assert refusal(path).startswith(f"{path}: the file name '{name}'")


@pytest.mark.parametrize("suffix", [".cu", ".py", ".yaml"])
def test_file_that_is_no_utf8(tmp_path, suffix):
    path = tmp_path / f"sample{suffix}"
    path.write_bytes("# gr\u00f6\u00dfe\n".encode("latin-1"))
    assert refusal(path).startswith(f"{path}: byte 4 (0xf6) is not UTF-8")
