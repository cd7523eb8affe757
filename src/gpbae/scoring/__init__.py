"""How good are the answers: scores, hidden cells, and simple rivals on the same cells."""
