"""What tests of kernels share: odd graphs, guarded memory, a sample of schedules that covers their space."""
