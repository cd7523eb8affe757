"""`python -m gpbae` is the `gpbae` command."""

from gpbae.cli import main

main()
