"""Front matter for a file that was written for nvcc.

`reading` finds kernels and their launches in the host's code. `arithmetic` translates the host's expressions,
and `matching` finds the operand or size that each parameter is. `guessing` makes front matter from these, and
`trying` executes it. `deriving` makes an operation from what a kernel touches. `compiled` reads a cubin
instead of code. `commands.wrap` asks the user and writes the file.
"""
