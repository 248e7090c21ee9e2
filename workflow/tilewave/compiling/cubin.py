"""The parts of a cubin that decide its behaviour: code and constants, not its line table."""

import hashlib
import io

CODE = (".text.", ".nv.constant", ".nv.global.init")
SIZES = (".nv.shared.", ".nv.global")


def resources(registers: int, shared: int, stack: int, *spills: int) -> dict[str, int]:
    """Return registers of a thread, and bytes of static shared memory, stack, spill stores and spill loads."""
    names = "registers static_shared_bytes stack_bytes spill_store_bytes spill_load_bytes".split()
    return dict(zip(names, (registers, shared, stack, *(spills or (0, 0)))))


def code_digest(cubin: bytes) -> str:
    """Return the SHA-256 over code, constants, initialised sections and reserved sizes, not debug sections."""
    from elftools.elf.elffile import ELFFile

    digest = hashlib.sha256()
    sections = sorted(ELFFile(io.BytesIO(cubin)).iter_sections(), key=lambda s: s.name)
    for section in sections:
        if section.name.startswith(CODE):
            digest.update(section.name.encode() + b"\0" + section.data())
        elif section.name.startswith(SIZES):
            digest.update(f"{section.name}\0{section['sh_size']}".encode())
    return digest.hexdigest()


def kernels(cubin: bytes) -> list[str]:
    """Return the names of the kernels, mangled unless they are ``extern "C"``."""
    from elftools.elf.elffile import ELFFile

    names = (section.name for section in ELFFile(io.BytesIO(cubin)).iter_sections())
    return sorted(name.removeprefix(".text.") for name in names if name.startswith(".text."))
