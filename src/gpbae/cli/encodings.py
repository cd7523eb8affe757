"""How the letters of a text file are written: in UTF-8, as a mark at its beginning says, or else in Windows-1252."""

import codecs
import functools
from collections.abc import Iterator
from pathlib import Path

from gpbae.errors import InputError

UTF8, MARKED, WINDOWS = "utf-8", "utf-8-sig", "cp1252"
MARKS = {codecs.BOM_UTF8: MARKED, codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32",
         codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}  # fmt: skip
"""Of two that begin alike, the longer first."""
CONTROL = bytes(code for code in range(32) if chr(code) not in "\t\n\v\f\r\x1a\x1b")
"""Which no text has, and most other files do."""
BLOCK = 2**20


def of(path: Path) -> str:
    """The encoding of a file, by all of it: a letter that tells may come late."""
    found = path.stat()
    return _of(path, found.st_size, found.st_mtime_ns)


@functools.lru_cache(16)
def _of(path: Path, _size: int, _changed: int) -> str:
    with path.open("rb") as file:
        head = file.read(4)
    marked = next((name for mark, name in MARKS.items() if head.startswith(mark)), None)
    for name in (UTF8, WINDOWS) if marked is None else (marked,):
        if _is_text(path, name):
            return name
    raise InputError(
        f"{path} must be text in UTF-8, in UTF-16 with a byte-order mark, or in Windows-1252; got bytes that are none "
        "of these. Save it as CSV UTF-8, or name the file that was meant."
    )


def _is_text(path: Path, name: str) -> bool:
    strange = CONTROL if name == WINDOWS else b"\0" if name in (UTF8, MARKED) else b""
    decoder = codecs.getincrementaldecoder(name)()
    try:
        for block in _blocks(path):
            if strange and len(block.translate(None, strange)) < len(block):
                return False
            decoder.decode(block)
        decoder.decode(b"", final=True)
    except UnicodeError:
        return False
    return True


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from iter(lambda: file.read(BLOCK), b"")


def notice(path: Path) -> str | None:
    """What to say of a file whose encoding could only be guessed."""
    if path.suffix.lower() != ".csv" or of(path) != WINDOWS:
        return None
    return f"{path.name} is not UTF-8 and is read as Windows-1252; if letters come out wrong, save it as UTF-8."


def of_answer(source: Path) -> str:
    """UTF-8, with a mark where the source needed more than that: its program may take UTF-8 for something else."""
    return UTF8 if source.suffix.lower() != ".csv" or of(source) == UTF8 else MARKED
