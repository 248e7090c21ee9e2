"""The parts of fonts that PDFs embed, kept in a store: fontTools takes a tenth of a second for each, a
figure has three or four, and its letters seldom change.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.backends import _backend_pdf_ps

from tilewave.environment import package_versions
from tilewave.records.store import Store

KIND = "fonts"


@dataclass(frozen=True)
class Part:
    """As what matplotlib makes: the font's part, which can be saved, and where its glyphs went."""

    data: bytes
    glyph_index_map: dict[int, int]

    @property
    def font(self) -> Part:
        return self

    def save(self, stream: Any, **how: Any) -> None:
        """Write the file of the font."""
        stream.write(self.data)


def _key(font: Any, glyphs: Iterable[int]) -> str:
    file = Path(str(font))
    state = file.stat()
    told = [file.name, state.st_size, state.st_mtime_ns, font.face_index, sorted(glyphs)]
    told.append(package_versions(("matplotlib", "fonttools")))
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()


@contextlib.contextmanager
def kept(store: Store) -> Iterator[None]:
    """PDFs that are saved in the block take the parts of their fonts from a store, and put them there.

    Their bytes are the same with and without.
    """
    made = _backend_pdf_ps.get_glyphs_subset

    def part(fontfile: Any, glyphs: Iterable[int]) -> Any:
        path = store.blob(KIND, _key(fontfile, glyphs), ".json")
        known = store.read(path)
        if known is None:
            with made(fontfile, set(glyphs)) as new:
                data = _backend_pdf_ps.font_as_file(new.font).getvalue()
                moved = list(new.glyph_index_map.items())
            known = {"font": base64.b64encode(data).decode(), "glyphs": moved}
            store.write(path, known)
        return contextlib.nullcontext(
            Part(base64.b64decode(known["font"]), dict(map(tuple, known["glyphs"])))
        )

    _backend_pdf_ps.get_glyphs_subset = part  # type: ignore[assignment]
    try:
        yield
    finally:
        _backend_pdf_ps.get_glyphs_subset = made
