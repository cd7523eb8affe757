"""What can be asked of the draws: posteriors of old and new rows, predictive distributions, diagnostics."""
