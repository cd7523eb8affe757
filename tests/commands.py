"""`gpbae ARGUMENTS`, in this process."""

import pytest

from gpbae import cli


def run(*arguments):
    """Its exit code."""
    with pytest.raises(SystemExit) as ended:
        cli.main([str(argument) for argument in arguments])
    return ended.value.code or 0
