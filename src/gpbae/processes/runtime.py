"""What the process needs before the first number: double precision, a sound jaxlib, one LAPACK thread."""

import functools
from pathlib import Path

import jax
import jaxlib.version

BAD_JAXLIBS = frozenset({"0.10.0", "0.10.1", "0.10.2", "0.11.0"})


def configure() -> None:
    """Enable float64 and refuse a jaxlib that can deadlock; called when a module that computes is first imported.

    Neither starts a JAX backend, so `jax.distributed.initialize` may still follow.
    """
    platforms = jax.config.jax_platforms or "cpu"  # pyright: ignore[reportAttributeAccessIssue]
    if "cpu" in platforms.split(","):
        check_jaxlib(jaxlib.version.__version__)
    jax.config.update("jax_enable_x64", True)


def check_jaxlib(version: str) -> None:
    """Raise ImportError for the releases whose batched LAPACK calls on CPU wait for their own thread pool for ever."""
    if ".".join(version.split(".")[:3]) in BAD_JAXLIBS:
        raise ImportError(
            f"gpbae cannot run on jaxlib {version}, whose batched factorisations deadlock on CPU; "
            "install another one, e.g. pip install 'jax>=0.9.2,!=0.10.*,!=0.11.0'."
        )


@functools.cache
def limit_blas_threads() -> int:
    """Give SciPy's OpenBLAS one thread and return how many libraries were found; later calls do nothing.

    JAX's CPU factorisations run on SciPy's copy of OpenBLAS, whose own threads compete with XLA's; NumPy's copy is left
    alone. It costs the import of `scipy.linalg`, which JAX's first factorisation needs anyway, so it happens on first
    use and not when the package is imported.
    """
    import scipy.linalg.cython_lapack  # noqa: F401  (loads the library that is to be limited)
    from threadpoolctl import ThreadpoolController

    openblas = ThreadpoolController().select(internal_api="openblas").lib_controllers
    scipys = [library for library in openblas if _belongs_to_scipy(library.filepath)]
    for library in scipys:
        library.set_num_threads(1)
    return len(scipys)


def _belongs_to_scipy(path: str) -> bool:
    """Whether a wheel of SciPy brought this library: scipy.libs (Linux, Windows) or scipy/.dylibs (macOS)."""
    folders = Path(path).parts[:-1]
    return folders[-1:] == ("scipy.libs",) or folders[-2:] == ("scipy", ".dylibs")


configure()
