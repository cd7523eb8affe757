"""What somebody might put in the place of a file, and how much memory it takes to find out.

    python tests/hostile.py RUN

opens the finished run of `runs.fit`, then every one of its files replaced by each of these in turn, and prints the peak
of memory (in kB) after the first and after all of them.
"""

import json
import os
import pickle
import resource
import shutil
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

SPARSE = 10 * 2**30
NAME = "full batch"


class Command:
    """A pickle that would leave a trace."""

    def __init__(self, trace: Path):
        self.trace = trace

    def __reduce__(self):
        return os.system, (f"touch {self.trace}",)


def plants(file: Path, outside: Path) -> Iterator[str]:
    """Each in the file's place: a pickle, a zip bomb, a link out of the folder, a folder, 10 GB of holes."""
    content = file.read_bytes()
    file.write_bytes(pickle.dumps(Command(outside / "executed")) + bytes(len(content)))
    yield "pickle"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as bomb:
        bomb.writestr("zeros", bytes(10**7))
    yield "zip bomb"
    file.unlink()
    (outside / "content").write_bytes(content)
    file.symlink_to(outside / "content")
    yield "link"
    file.unlink()
    file.mkdir()
    yield "folder"
    file.rmdir()
    with open(file, "wb") as holes:
        holes.truncate(SPARSE)
    yield "sparse"
    file.write_bytes(content)


def open_all(folder: Path) -> None:
    """All that resuming reads, and all that loading reads."""
    import runs
    from gpbae import load
    from gpbae.saving import runfolder

    cls, arguments, groups = runs.RUNS[NAME]
    with runfolder.keeping(folder, cls(**runs.QUICK | arguments, progress=False), runs.X, runs.Y, groups) as run:
        run.saved()
    load(folder)


def peak() -> int:
    """Of this program alone, where the system tells; getrusage counts from the process that started it."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM"))


def main(folder: Path) -> dict[str, int]:
    from gpbae.errors import InputError

    outside = folder.parent / "outside"
    outside.mkdir()
    open_all(folder)
    honest, tried, refused = peak(), 0, 0
    files = [p for p in folder.rglob("*") if p.is_file() and p.name != ".lock"]
    for file in files:
        twin = shutil.copytree(folder, folder.parent / "twin")
        for _ in plants(twin / file.relative_to(folder), outside):
            tried += 1
            try:
                open_all(twin)
            except InputError as error:
                refused += str(twin / file.relative_to(folder)) in str(error)
        shutil.rmtree(twin)
    return {"files": len(files), "tried": tried, "refused": refused, "honest": honest, "all": peak(),
            "executed": (outside / "executed").exists()}  # fmt: skip


if __name__ == "__main__":
    here = Path(__file__).resolve().parent
    sys.path[:0] = [str(here), str(here.parent / "src")]
    print(json.dumps(main(Path(sys.argv[1]))))
