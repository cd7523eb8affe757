"""The `gpbae` command: what a user types, the table they give, and what is printed.

    app                                                   the entry point: commands and exit codes
    demo fit answers findings merging reproduce machine datasets  the commands
    options misspelt terminal                             what a user types, and what is printed
    runs scores                                           a run's folder; hidden cells scored
    arguments expressions                                 a model's arguments as text
    reading roles dates parsing files                     a user's table: which column is what, how its cells are read
    long pieces                                           tables too long to hold

Nothing heavy is imported before a command needs it, so that `--help` answers at once.
"""

from gpbae.cli.app import main

__all__ = ["main"]
