"""Errors, paths, files, progress and compiled functions, for every room."""
