"""Strict numerics for every test: shapes checked, promotions refused, keys used once. Set before gpbae is imported."""

import gc
import os
import signal
from pathlib import Path

if "PYTEST_XDIST_WORKER" in os.environ:
    # One XLA thread per worker, or two workers fight over the cores; XLA reads the size of its pool from NPROC.
    os.environ.setdefault("NPROC", "1")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell without job control starts what runs in the background so, and the commands that tests stop inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ["GPBAE_COMPILED"] = "off"  # commands that tests run keep nothing for the user's own
os.environ["MPLBACKEND"] = "Agg"  # draw into memory, in subprocesses too: no test may need a display

import jax
import pytest
from jaxtyping import install_import_hook

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_debug_key_reuse", True)
jax.config.update("jax_num_cpu_devices", 1)  # else the first command to run would decide for the tests after it

install_import_hook("gpbae", "beartype.beartype")

BESIDE_THE_CHECKOUT = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="module", autouse=True)
def quick_compilation(request):
    """Most tests run a compiled function a few times: code that runs fast is not worth its compilation, here and in
    subprocesses. Modules that sample for long say OPTIMISED = True.
    """
    quick = not getattr(request.module, "OPTIMISED", False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", str(int(quick)))
        jax.config.update("jax_disable_most_optimizations", quick)
        yield
        jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(scope="module", autouse=True)
def forget_compiled_programs():
    """A compiled program holds memory maps, of which a process may have 65 530: beyond, XLA ends in a crash."""
    yield
    jax.clear_caches()
    gc.collect()


@pytest.fixture(scope="session")
def data_dir():
    """Folder of datasets, also in the environment; tests that need one are skipped where there is none."""
    path = Path(os.environ.get("GPBAE_DATA_DIR") or BESIDE_THE_CHECKOUT)
    if not path.is_dir():
        pytest.skip(f"needs the dataset files, and there is no folder {path}: point GPBAE_DATA_DIR at them")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPBAE_DATA_DIR", str(path))
        yield path
