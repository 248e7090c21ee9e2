"""The machine: executes SASS. Knows nothing of GEMM, records or files. Its README is its map."""

VERSION = 3  # raised when what is executed, counted or caught changes; part of every key
