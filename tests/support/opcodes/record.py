"""The recording of the fixtures' results on a GPU, tests/support/opcodes/h200.npz.

    PYTHONPATH=workflow python tests/support/opcodes/record.py FILE.npz [--only qgmma]

``--only`` runs the files of that name, and takes the other kernels' results from the recording. Each file is
compiled for the GPU's architecture, and each kernel launched twice. Results that differ between the launches,
and unwritten words, are errors. Each file runs in a separate process, so a kernel that fails or does not end is
named and skipped, and the rest still runs.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from opcodes import harness, manifest
from opcodes.inputs import generate_inputs
from tilewave.compiling import cubin, nvrtc

LIMIT_S = 60.0
"""A file's kernels take seconds, so a kernel that takes longer does not end."""


def digest(arrays: list[np.ndarray]) -> str:
    return hashlib.sha256(b"".join(a.astype("<u4").tobytes() for a in arrays)).hexdigest()


def run_file(path: Path, folder: Path) -> None:
    """Write each kernel's results of both launches to ``folder/<kernel>.npy``, in a separate process.
    The name of a kernel is printed before it runs."""
    card = harness.Card()
    about = {"gpu": card.gpu.name, "arch": card.gpu.arch, "nvrtc": nvrtc.version()}
    image = harness.cubin_of(path, card.gpu.arch)
    about["code"] = cubin.code_digest(image)
    (folder / f"{path.name}.json").write_text(json.dumps(about))
    for kernel in manifest.kernels().values():
        target = folder / f"{kernel.name}.npy"
        skipped = Path(kernel.file).name != path.name or kernel.needs > int(card.gpu.arch[3:])
        if skipped or target.exists():
            continue
        print(kernel.name, flush=True)
        target.touch()  # an empty file marks a kernel that did not end
        given = list(generate_inputs(kernel)), kernel.results, kernel.threads
        np.save(target, np.stack([card.run(image, kernel.name, *given) for _ in range(2)]))


def run_all(paths: list[Path], folder: Path) -> list[str]:
    """Run every file, again without a kernel that failed. Return a sentence for each failure."""
    faults = []
    for path in paths:
        while True:
            command = [sys.executable, __file__, "--child", str(path), str(folder)]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
                code, output, error = done.returncode, done.stdout, done.stderr
            except subprocess.TimeoutExpired as ended:
                code, error = -1, f"not ended after {LIMIT_S} s"
                output = (ended.stdout or b"").decode()
            if code == 0:
                break
            reached = output.split()
            last = error.strip().splitlines()[-1:] or [f"exit code {code}"]
            faults.append(f"{path.name} {' '.join(reached[-1:])}: {last[0]}")
            if not reached:  # no kernel started
                break
        print(path.name, flush=True)
    return faults


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", help="a file's name, without its suffix")
    options = parser.parse_args()
    paths = [*manifest.files(), *manifest.specific_files()]
    about: dict[str, Any] = {"code": {}, "inputs": {}}
    kept: dict[str, np.ndarray] = {}
    if options.only:
        paths = [path for path in paths if path.stem == options.only]
        about, kept = harness.recorded()
    count = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        faults = run_all(paths, folder)
        for path in paths:
            described = folder / f"{path.name}.json"
            if described.exists():
                details = json.loads(described.read_text())
                about["code"][path.name] = details.pop("code")
                about |= details
        for kernel in manifest.kernels().values():
            file = folder / f"{kernel.name}.npy"
            if not file.exists() or not file.stat().st_size:
                continue
            first, second = np.load(file)
            if not np.array_equal(first, second):
                columns = sorted({int(k) for _, k in np.argwhere(first != second)})
                faults.append(f"{kernel.name}: results {columns} differ between two launches")
            unwritten = np.flatnonzero((first == harness.POISON).all(axis=0))
            if unwritten.size:
                faults.append(f"{kernel.name}: results {unwritten.tolist()} never written")
            about["inputs"][kernel.name] = digest(list(generate_inputs(kernel)))
            kept |= harness.pack(kernel, first)
            count += 1
    text = np.frombuffer(json.dumps(about, sort_keys=True).encode(), np.uint8)
    np.savez_compressed(options.file, about=text, **kept)
    print(f"{options.file}: {count} kernels, {options.file.stat().st_size} bytes")
    for fault in faults:
        print("FAULT", fault)
    return 1 if faults else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        run_file(Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        sys.exit(main())
