"""Code that another compiler made: Triton, nvcc, a library's build.
A kernel whose front matter names a `cubin` is not compiled here; all other stages are the same."""

import hashlib

from tilewave.basics import elf as images
from tilewave.basics import files
from tilewave.basics.errors import HERE, UserError
from tilewave.compiling import cubin as parts
from tilewave.compiling.nvrtc import Compiled
from tilewave.kernel.expressions import Names
from tilewave.kernel.front_matter import Kernel
from tilewave.theory import architectures


def _content(kernel: Kernel, macros: Names) -> tuple[str, bytes | str]:
    """Return the file's name with these macros, and its bytes or the reason why there are none."""
    assert kernel.front.cubin is not None
    name = kernel.formatted("cubin", kernel.front.cubin, macros)
    folder = kernel.path.parent
    if not files.lies_in(folder / name, [folder]):
        return name, "it does not lie in the kernel's folder"
    try:
        return name, files.content(folder / name, files.MOST_DATA)
    except UserError as error:
        return name, str(error.moved(HERE))


def text_key(kernel: Kernel, arch: str, macros: Names) -> str:
    """Return the content key, from the file's bytes."""
    name, content = _content(kernel, macros)
    data = content if isinstance(content, bytes) else f"{name}: {content}".encode()
    return hashlib.sha256(arch.encode() + b"\0" + data).hexdigest()


cache_key = text_key


def compile_kernel(kernel: Kernel, arch: str, macros: Names) -> Compiled:
    """Return the cubin as if it had been compiled for ``arch``; a message if it does not fit."""
    name, content = _content(kernel, macros)

    def refused(why: str) -> Compiled:
        return Compiled(None, (), "", "", f"{name}: {why}")

    if isinstance(content, str):
        return refused(content)
    try:
        kernels = {entry: images.read(content, entry) for entry in parts.kernels(content)}
    except Exception as error:  # the reader raises anything for a file that is no cubin
        return refused(f"it is no cubin ({type(error).__name__}: {error})")
    wanted = architectures.number(arch)
    archs = {image.arch for image in kernels.values()}
    if archs != {wanted}:
        was = " and ".join(f"sm_{number}" for number in sorted(archs)) or "no kernel"
        return refused(f"it was compiled for {was}, not for {arch}")
    used = {}
    for entry, image in kernels.items():  # it does not separate spills from other stack memory
        static = architectures.of(image.arch).declared(image.shared_size)
        used[entry] = parts.resources(image.registers, static, image.stack_size)
    return Compiled(content, (), "", "", resources=used)
