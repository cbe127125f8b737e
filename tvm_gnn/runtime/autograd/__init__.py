"""Kernels as operators that torch knows: recorded by autograd, traced by `torch.compile`. Imported beside torch."""
