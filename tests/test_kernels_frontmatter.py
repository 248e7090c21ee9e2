"""Front matter: good files load, bad ones end in one line that names file, key, found, allowed."""

import pytest

from samples import BODY, FRONT, ROOT, config, write_kernel
from tilewave import project
from tilewave.errors import UserError
from tilewave.kernels import find_kernels, load_kernel
from tilewave.trial import try_out
from tilewave.variants import choices, variant


def refusal(path):
    """The one-line message for a bad file."""
    with pytest.raises(UserError) as caught:
        load_kernel(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    assert "; allowed: " in message
    return message


def test_every_shipped_kernel_loads_and_has_a_legal_default():
    kernels = find_kernels([ROOT / "kernels"])
    assert {"matmul_naive", "hgemm_wmma_staged", "cublas", "matmul_cpu"} <= set(kernels)
    for kernel in kernels.values():
        assert variant(kernel, {}, kernel.path, "macros").id == kernel.name


def test_a_folder_laid_out_as_ours_has_kernels_in_its_parts_and_headers_beside_them(tmp_path):
    own = tmp_path / "kernels"
    body = '#include "shared.cuh"\n' + BODY
    for part, name in (("ladder", "first"), ("operations", "second"), (".", "mine")):
        write_kernel(own / part, name, body=body)
    # Other folders are looked into where they are named.
    assert list(find_kernels([own])) == ["mine"]
    assert not load_kernel(own / "ladder" / "first.cu").own_headers
    for part in ("probes", "include"):
        (own / part).mkdir()
    (own / "include" / "shared.cuh").write_text("// shared\n")
    found = find_kernels([own])
    assert list(found) == ["mine", "first", "second"]
    assert all(one.own_headers == {"shared.cuh": "// shared\n"} for one in found.values())
    assert list(find_kernels([own / "ladder"])) == ["first"]


def test_good_file(tmp_path):
    kernel = load_kernel(write_kernel(tmp_path))
    assert (kernel.name, kernel.entry, kernel.provider) == ("sample", "sample", "nvrtc")
    assert [one.id for one in choices(kernel, "product", "here", "macros")] == [
        "sample",
        "sample-tile32",
        "sample-realf64",
        "sample-realf64-tile32",
    ]
    plan = variant(kernel, {"TILE": 32}, "here", "macros").plan({"m": 65, "n": 32, "k": 1}, {})
    assert (plan.grid, plan.block, plan.tile) == ((1, 3, 1), (32, 32, 1), (32, 32, 1))
    assert plan.working_blocks == plan.blocks == 3


def test_unknown_key_suggests_the_nearest(tmp_path):
    message = refusal(write_kernel(tmp_path, front=FRONT + "gird: [1]\n"))
    assert "gird" in message
    assert "did you mean 'grid'?" in message


def test_unknown_key_of_a_probe_case(tmp_path):
    front = "title: t\noperation: probe\ncases: {one: {macros: {}, expects: {}}}\n"
    message = refusal(write_kernel(tmp_path, front=front))
    assert "cases.one.expects" in message
    assert "did you mean 'expect'?" in message


def test_bad_yaml_names_the_line(tmp_path):
    message = refusal(write_kernel(tmp_path, front="title: t\nblock: [1, 2\noperation: matmul\n"))
    assert "front matter line" in message


@pytest.mark.parametrize("text", ["", "extern int x;\n/*---\ntitle: t\n---*/", "/*---\ntitle: t\n"])
def test_missing_fence(tmp_path, text):
    path = tmp_path / "bare.cu"
    path.write_text(text)
    assert "/*---" in refusal(path)


def test_front_matter_that_is_no_mapping(tmp_path):
    assert "a mapping of keys" in refusal(write_kernel(tmp_path, front="- one\n- two\n"))


@pytest.mark.parametrize("missing", ["title", "operation"])
def test_required_key(tmp_path, missing):
    lines = [line for line in FRONT.splitlines() if not line.startswith(missing)]
    message = refusal(write_kernel(tmp_path, front="\n".join(lines) + "\n"))
    assert f": {missing}: found " in message


def test_required_key_is_told_in_a_short_line(tmp_path):
    path = write_kernel(tmp_path, front=FRONT.replace("operation: matmul", "idea: none"))
    assert len(refusal(path)) < 200 + len(str(path))


def test_unknown_operation(tmp_path):
    front = FRONT.replace("operation: matmul", "operation: matmull")
    assert "did you mean 'matmul'" in refusal(write_kernel(tmp_path, front=front))


@pytest.mark.parametrize("values", ["[16, 16]", "[]", "[16, '16']"])
def test_macro_values_must_differ(tmp_path, values):
    front = FRONT.replace("TILE: [16, 32]", f"TILE: {values}")
    assert "macros.TILE" in refusal(write_kernel(tmp_path, front=front))


def test_macro_that_is_no_list(tmp_path):
    front = FRONT.replace("TILE: [16, 32]", "TILE: 16")
    assert "macros.TILE" in refusal(write_kernel(tmp_path, front=front))


def test_yaml_kernel_must_name_its_provider(tmp_path):
    path = tmp_path / "vendor.yaml"
    path.write_text("title: t\noperation: matmul\n")
    assert "cublaslt" in refusal(path)


def test_two_files_of_one_name(tmp_path):
    write_kernel(tmp_path / "one")
    write_kernel(tmp_path / "two")
    with pytest.raises(UserError, match="a name no other kernel file has"):
        find_kernels([tmp_path / "one", tmp_path / "two"])


def test_expression_with_an_unknown_name_names_the_file(tmp_path):
    path = write_kernel(tmp_path, front=FRONT.replace("ceil(n / TILE)", "ceil(n / TIEL)"))
    with pytest.raises(UserError, match="TIEL") as caught:
        variant(load_kernel(path), {}, path, "macros").plan({"m": 1, "n": 1, "k": 1}, {})
    assert str(caught.value).startswith(f"{path}: grid")


def test_requirements_become_sentences(tmp_path):
    front = FRONT.replace("requires: {arch: 75}", "requires: {arch: 80, n: 8}")
    made = variant(load_kernel(write_kernel(tmp_path, front=front)), {}, "here", "macros")
    shape = {"m": 1, "n": 130, "k": 1}
    assert made.supports(shape, {"arch": 90}) == "n = 130 is not a multiple of 8"
    assert made.supports(shape, {"arch": 75}) == "needs compute capability 8.0 or later"
    assert made.supports(shape | {"n": 128}, {"arch": 90}) == ""


def test_a_kernel_names_what_an_architecture_must_have(tmp_path):
    conditions = "conditions: [wgmma, TILE <= warps_per_sm]"
    front = FRONT.replace("{arch: 75}", f"{{arch: 75, {conditions}}}")
    made = variant(load_kernel(write_kernel(tmp_path, front=front)), {}, "here", "macros")
    try_out(made)
    shape = {"m": 1, "n": 1, "k": 1}
    assert made.supports(shape, {"arch": 90}) == made.supports(shape, {}) == ""
    for arch in (89, 100, 120):
        told = made.supports(shape, {"arch": arch})
        assert told == "needs wgmma, which this architecture has not"


def test_key_that_stands_twice(tmp_path):
    message = refusal(write_kernel(tmp_path, front=FRONT + "block: [TILE]\n"))
    assert "front matter line 11: found 'the key block twice'" in message
    front = "title: t\noperation: probe\ncases: {one: {note: a}, two: {note: a, note: b}}\n"
    assert "line 4: found 'the key note twice'" in refusal(write_kernel(tmp_path, front=front))


def test_missing_key_shows_only_the_key(tmp_path):
    message = refusal(write_kernel(tmp_path, front="operation: matmul\n"))
    assert message.endswith("title: found nothing; allowed: a value: the key is required")


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("ceil(n / TILE)", "ceil(n / TIEL)", "grid.0"),
        ("block: [TILE, TILE]", "block: [TILE, TIEL]", "block.1"),
        ("tile: [TILE, TILE, 1]", "tile: [TILE, k, TIEL]", "tile.2"),
        ("title: A", "shared_bytes: TIEL * 4\ntitle: A", "shared_bytes"),
        ("title: A", "working_blocks: ceil(q / 2)\ntitle: A", "working_blocks"),
        ("title: A", "shared_bytes: 4 if TILE == 16 else TIEL\ntitle: A", "shared_bytes"),
        ("title: A", "shared_bytes: size(REEL)\ntitle: A", "shared_bytes"),
        ("title: A", "shared_bytes: sise(REAL)\ntitle: A", "shared_bytes"),
        ("accumulate: REAL", "accumulate: REEL", "dtypes.accumulate"),
        ("accumulate: REAL", "accumulate: TILE", "dtypes.accumulate"),
        ("title: A", "layouts: {b: colum}\ntitle: A", "layouts.b"),
        ("{arch: 75}", "{arch: 75, conditions: [n <= TIEL]}", "requires.conditions"),
        ("{arch: 75}", "{arch: 75, conditions: n <= 8}", "requires.conditions"),
        ("{arch: 75}", "{arch: sm_75}", "requires.arch"),
        ("{arch: 75}", "{ach: 75}", "requires.ach"),
        ("{arch: 75}", "{n: TIEL}", "requires.n"),
        ("title: A", "let: {twice: 2 * TIEL}\ntitle: A", "let.twice"),
        ("title: A", "let: {first: second, second: 2}\ntitle: A", "let.first"),
        ("title: A", "let: {first: second, second: first}\ntitle: A", "let.first"),
        ("title: A", "let: {self: self + 1}\ntitle: A", "let.self"),
        ("title: A", "let: {none: 1 // (n - n)}\nshared_bytes: none\ntitle: A", "let.none"),
        ("title: A", "let: {TILE: 2}\ntitle: A", "let.TILE"),
        ("title: A", "let: {n: 2}\ntitle: A", "let.n"),
        ("title: A", "let: {sms: 2}\ntitle: A", "let.sms"),
        ("title: A", "let: {arch: 2}\ntitle: A", "let.arch"),
        ("title: A", "let: {f32: 2}\ntitle: A", "let.f32"),
        ("title: A", "let: {col: 2}\ntitle: A", "let.col"),
        ("title: A", "let: {ceil: 2}\ntitle: A", "let.ceil"),
        ("title: A", "let: {two words: 2}\ntitle: A", "let.two words"),
        ("title: A", "let: {newer: arch >= 90}\ntitle: A", "let.newer"),
        (
            "accumulate: REAL",
            "accumulate: sized}\nlet: {sized: f32 if n > 1 else f64",
            "dtypes.accumulate",
        ),
        ("{arch: 75}", "{n: sized}\nlet: {sized: 2 * n}", "let.sized"),
    ],
)
def test_expressions_are_tried_out_before_anything_runs(tmp_path, old, new, key):
    assert old in FRONT
    path = write_kernel(tmp_path, front=FRONT.replace(old, new))
    with pytest.raises(UserError) as caught:
        try_out(variant(load_kernel(path), {}, path, "macros"))
    assert str(caught.value).startswith(f"{path}: {key}: found ")
    assert "; allowed: " in str(caught.value)


@pytest.mark.parametrize(
    "more",
    [
        "shared_bytes: size(REAL) * min(sms, l2_bytes)",
        "working_blocks: ceil(n / 300) * ceil(m / 300)",
        "layouts: {a: row if TILE == 16 else col}",
        "let: {sum: f64 if TILE == 16 else REAL, b_is: col}\nlayouts: {b: b_is, c: row if sum else col}",
        "let: {unused: sms * l2_bytes, one: 2 * n, other: one + m}\nshared_bytes: other // 64",
    ],
)
def test_good_expressions_pass_the_trial(tmp_path, more):
    made = load_kernel(write_kernel(tmp_path, front=f"{FRONT}{more}\n"))
    for one in choices(made, "product", "here", "macros"):
        try_out(one)


def test_trial_keeps_to_the_requirements(tmp_path):
    """Sizes that a kernel refuses are no mistake of its grid."""
    front = FRONT.replace("ceil(m / TILE)", "m // 1000")
    for requires in ("{m: 1000}", "{conditions: [m >= 1000]}"):
        text = front.replace("{arch: 75}", requires)
        try_out(variant(load_kernel(write_kernel(tmp_path, front=text)), {}, "here", "macros"))


def test_geometry_that_asks_for_the_device(tmp_path):
    front = FRONT.replace("ceil(m / TILE)", "sms")
    made = variant(load_kernel(write_kernel(tmp_path, front=front)), {}, "here", "macros")
    assert made.unknown_device({}) == "sms"
    assert made.unknown_device({"sms": 132}) == ""


LET = """\
let: {small: 16, tiles: ceil(n / TILE) * ceil(m / TILE), waves: ceil(tiles / sms), shared: waves * TILE}
where: [TILE == small or REAL == f32]
shared_bytes: shared
working_blocks: tiles
"""


def test_let_names_what_later_expressions_use(tmp_path):
    front = FRONT.replace('["ceil(n / TILE)", "ceil(m / TILE)"]', '["min(sms, tiles)"]')
    front = front.replace(
        "{arch: 75}", "{arch: 75, conditions: [shared <= shared_per_block_optin]}"
    )
    kernel = load_kernel(write_kernel(tmp_path, front=front + LET))
    found = {one.id for one in choices(kernel, "product", "here", "macros")}
    assert found == {"sample", "sample-tile32", "sample-realf64"}
    made = variant(kernel, {}, "here", "macros")
    shape, device = {"m": 33, "n": 64, "k": 1}, {"sms": 5}
    plan = made.plan(shape, device)
    assert (plan.grid, plan.working_blocks, plan.shared_bytes) == ((5, 1, 1), 12, 48)
    assert made.supports(shape, device) == ""  # what is not known of the device forbids nothing
    assert made.supports(shape, device | {"shared_per_block_optin": 40}) == (
        "needs shared <= shared_per_block_optin (shared = 48, shared_per_block_optin = 40)"
    )
    assert made.unknown_device({}) == "sms"
    assert made.unknown_device(device) == ""


@pytest.mark.parametrize("key", ["grid: [few]", "working_blocks: few", "cluster: [few]"])
def test_geometry_that_asks_for_the_device_through_a_let(tmp_path, key):
    lines = [line for line in FRONT.splitlines() if not line.startswith(key.split(":")[0])]
    front = "\n".join([*lines, "let: {half: sms // 2, few: half * n}", key, ""])
    made = variant(load_kernel(write_kernel(tmp_path, front=front)), {}, "here", "macros")
    assert made.unknown_device({}) == "sms"
    assert made.unknown_device({"sms": 132}) == ""


def test_cycle_of_lets_in_a_condition_on_macros(tmp_path):
    front = FRONT + "let: {first: second, second: first}\nwhere: [first > 1]\n"
    with pytest.raises(UserError, match=r": let\.first: found "):
        list(choices(load_kernel(write_kernel(tmp_path, front=front)), "product", "here", "macros"))


def project_refusal(path):
    """The one line that ends a run whose config names this file, though no study asks for it."""
    with pytest.raises(UserError) as caught:
        project.load(config(kernel_folders=["kernels", str(path)]), "config/test.yaml")
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    assert ": found " in message and "; allowed: " in message
    return message


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ('grid: ["ceil(n / TILE)", "ceil(m / TILE)"]', "grid: []", "grid"),
        ("block: [TILE, TILE]", "block: []", "block"),
        ("block: [TILE, TILE]", "block: [1, 1, 1, 1]", "block"),
        ("TILE: [16, 32]}", "TILE: [16, 32], n: [1, 2]}", "macros.n"),
        ("TILE: [16, 32]}", "TILE: [16, 32], sms: [1, 2]}", "macros.sms"),
        ("[a, b, c, m, n, k, alpha, beta]", "[a, b, c, m, n, k, alpha, gamma]", "arguments"),
        ("c: REAL, accumulate", "c: REAL, d: REAL, accumulate", "dtypes"),
        (", accumulate: REAL", "", "dtypes.accumulate"),
        ("c: REAL, accumulate: REAL", "c: i8, accumulate: i32", "dtypes.c"),
        ("c: REAL, accumulate: REAL", "c: f32, accumulate: i32", "dtypes.c"),
        ("c: REAL, accumulate: REAL", "c: REAL, accumulate: i8", "dtypes.accumulate"),
        ("title: A", "layouts: {d: row}\ntitle: A", "layouts"),
        ("tile: [TILE, TILE, 1]", "tile: [TILE]", "tile"),
        ("title: A", "provider: cpu\ntitle: A", "provider"),
        ("matmul", "probe\nlet: {one: 1}", "let"),
    ],
)
def test_front_matter_that_means_nothing(tmp_path, old, new, key):
    assert old in FRONT
    path = write_kernel(tmp_path, front=FRONT.replace(old, new))
    assert project_refusal(path).startswith(f"{path}: {key}: found ")


@pytest.mark.parametrize("name", ["my-kernel", "Sample", "sAMPLE", "2nd", "all", "two words"])
def test_file_names_that_are_no_names(tmp_path, name):
    path = write_kernel(tmp_path, name, body=BODY.replace("NAME", "sample"))
    assert project_refusal(path).startswith(f"{path}: file name: found '{name}'")


@pytest.mark.parametrize("suffix", [".cu", ".py", ".yaml"])
def test_file_that_is_no_utf8(tmp_path, suffix):
    path = tmp_path / f"sample{suffix}"
    path.write_bytes("# gr\u00f6\u00dfe\n".encode("latin-1"))
    assert project_refusal(path).startswith(f"{path}: byte 4: found 'no UTF-8'")


@pytest.mark.parametrize(
    ("front", "told"),
    [
        (
            FRONT.replace("{a: REAL", "{a: half"),
            "found 'half'; allowed: REAL, TILE, bf16, e4m3, e5m2, f16",
        ),
        (FRONT + "layouts: {a: rows}\n", "found 'rows' (did you mean 'row'?); allowed: "),
    ],
)
def test_what_a_dtype_may_be_is_listed(tmp_path, front, told):
    kernel = load_kernel(write_kernel(tmp_path, front=front))
    with pytest.raises(UserError) as error:
        try_out(next(choices(kernel, "defaults", "config", "macros")))
    assert told in str(error.value)
