"""The process a run lives in: precision, devices, other processes, signals, and what it shows while it runs."""
