"""Front matter for a file that was written for nvcc: what its code says of the launch, and what it leaves
open.

`reading` finds kernels and how code of the host launches them, `arithmetic` takes the host's expressions
over into front matter, `matching` says what the parameters are to an operation, `guessing` makes front
matter of all three, `trying` executes it; `deriving` makes an operation of what a kernel touches, `compiled` reads a
cubin in the place of code; `commands.wrap` asks and writes.
"""
