"""The machine: executes SASS. Knows nothing of GEMM, records or files. Its README is its map."""

from __future__ import annotations

VERSION = 3  # raised when what is executed, counted or caught changes; part of every key
