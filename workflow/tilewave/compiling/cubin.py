"""The parts of a cubin that decide its behaviour: code and constants, not its line table."""

import hashlib
import io

CODE = (".text.", ".nv.constant", ".nv.global.init")
SIZES = (".nv.shared.", ".nv.global")


def code_digest(cubin: bytes) -> str:
    """Return the SHA-256 over executable code, constant and initialised sections, and reserved sizes.

    Debug sections do not count, so that a comment in the source changes nothing.
    """
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
