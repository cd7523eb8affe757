"""Models and runs as folders: written at once or not at all, never executed, merged and continued."""
