"""The `gpbae` command: what a user types, the table they give, and what is printed.

    app                      the entry point, exit codes and the list of commands
    roles dates parsing files  a user's table: which column is what, and how its cells are read and written back
    arguments expressions    a model's arguments as text

Nothing heavy is imported before a command needs it, so that `--help` answers at once.
"""

from gpbae.cli.app import main

__all__ = ["main"]
