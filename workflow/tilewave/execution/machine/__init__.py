"""The machine: executes SASS. Knows nothing of GEMM, records or files. Its README is its map."""

VERSION = 3  # raise it when execution, counts or findings change; part of every key
