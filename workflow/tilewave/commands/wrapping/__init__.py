"""Front matter for a file that was written for nvcc.

`finding` reads the files around a kernel, `reading` finds kernels and launches in them, and `scopes` has what the
host's names stand for. `arithmetic` translates the host's expressions, and `matching` finds the operand or size that
each parameter is. `guessing` makes front matter from these, `target` adds the user's facts, and `trying` executes it.
`probing` and `deriving` learn from what a kernel touches. `compiled` reads a cubin instead of code. `commands.wrap`
writes the file."""
