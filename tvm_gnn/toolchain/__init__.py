"""What turns a scheduled TensorIR function into a library: TVM's import, the target, LLVM, the system linker."""
