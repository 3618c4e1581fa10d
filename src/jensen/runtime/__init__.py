"""The process that a fit runs in: progress, warnings, interrupts, memory, threads and random numbers."""
