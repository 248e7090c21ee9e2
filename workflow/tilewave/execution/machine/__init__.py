"""The machine: executes SASS. Knows nothing of GEMM, records or files. Its README is its map."""

VERSION = 4  # raise it when execution, counts or findings change; part of every key
