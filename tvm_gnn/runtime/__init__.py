"""Running a built kernel: the library's ABI, the thread pool it shares with its host, arrays in and out."""
