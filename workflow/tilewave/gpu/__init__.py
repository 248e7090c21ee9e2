"""Everything that needs a driver. Every module here imports without CUDA; functions import it."""
