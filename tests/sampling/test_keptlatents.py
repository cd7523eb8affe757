"""Latents in a file are those the chains left, whatever is killed when: checkpoint and file together know them."""

import errno
import os
import shutil
import types

import numpy as np
import pytest

from gpbae.errors import GpbaeError, InputError
from gpbae.sampling import keptlatents
from gpbae.sampling.keptlatents import KeptLatents

CHAINS, N, C = 2, 50, 3


def made(folder, begun=True):
    kept = KeptLatents(folder, CHAINS, N, C)
    if begun:
        kept.begin()
    return kept


def block(kept, seed, sound=(True, True)):
    """Some rows of every chain, with repetitions, get new latents."""
    rng = np.random.default_rng(seed)
    found = kept.visited(rng.integers(0, N, (CHAINS, 2, 2, 6)))
    kept.write(found, rng.standard_normal(found.latents.shape).astype(np.float32), np.array(sound))


def all_of(kept):
    """Latents of all rows, (chain, row, C)."""
    found = kept.visited(np.tile(np.arange(N), (CHAINS, 1)))
    return found.latents.copy()


def checkpoint(kept):
    arrays = kept.arrays()
    kept.flush()
    kept.settle(arrays)
    return arrays


def test_rows_are_found_as_they_were_left_by_chain_and_those_never_seen_are_zeros(tmp_path):
    kept = made(tmp_path)
    numbers = np.array([[[7, 3, 3]], [[3, 9, 7]]])
    found = kept.visited(numbers)
    assert not found.latents.any() and found.latents.shape == (2, 3, C)
    new = np.arange(2 * 3 * C, dtype=np.float32).reshape(2, 3, C) + 1
    kept.write(found, new, np.array([True, True]))
    again = kept.visited(numbers)
    assert again.slots[0].tolist() == [[1, 0, 0]] and again.slots[1].tolist() == [[0, 2, 1]]
    np.testing.assert_array_equal(again.latents[0, :2], new[0, :2])
    np.testing.assert_array_equal(again.latents[1], new[1])
    assert np.count_nonzero(all_of(kept).any(axis=2)) == 5


def test_chains_that_broke_keep_what_they_had(tmp_path):
    kept = made(tmp_path)
    block(kept, 0)
    before = all_of(kept)
    block(kept, 1, sound=(False, True))
    np.testing.assert_array_equal(all_of(kept)[0], before[0])
    assert (all_of(kept)[1] != before[1]).any()


def test_where_checkpoints_are_made_does_not_matter(tmp_path):
    often, never = made(tmp_path / "a"), made(tmp_path / "b")
    for number in range(8):
        for kept in (often, never):
            block(kept, number)
        checkpoint(often)
        np.testing.assert_array_equal(all_of(often), all_of(never))
    assert not len(often.journal.places) and len(never.journal.places)


def test_what_is_written_between_a_moment_and_its_checkpoint_is_not_lost(tmp_path):
    kept = made(tmp_path)
    block(kept, 0)
    arrays, then = kept.arrays(), all_of(kept)
    block(kept, 1)
    now = all_of(kept)
    kept.settle(arrays)
    np.testing.assert_array_equal(all_of(kept), now)
    resumed = made(tmp_path, begun=False)
    resumed.go_on(arrays)
    np.testing.assert_array_equal(all_of(resumed), then)


@pytest.mark.parametrize("taken", ["nothing", "the number", "half", "all"])
def test_a_kill_while_the_file_takes_a_journal_is_mended_by_the_checkpoint(taken, tmp_path):
    kept = made(tmp_path)
    block(kept, 0)
    checkpoint(kept)
    block(kept, 1)
    arrays, expected = kept.arrays(), all_of(kept)
    if taken != "nothing":
        kept.stamp[1] = arrays["kept.checkpoint"]
    some = {"half": 5, "all": None}.get(taken, 0)
    kept.values[arrays["kept.places"][:some]] = arrays["kept.latents"][:some]
    block(kept, 2)  # and what came after it
    resumed = made(tmp_path, begun=False)
    resumed.go_on(arrays)
    np.testing.assert_array_equal(all_of(resumed), expected)
    block(resumed, 3)
    checkpoint(resumed)
    third = made(tmp_path, begun=False)
    third.go_on(resumed.arrays() | {"kept.checkpoint": np.array(resumed.checkpoint)})
    np.testing.assert_array_equal(all_of(third), all_of(resumed))


def lose(path):
    path.unlink()


def cut(path):
    os.truncate(path, path.stat().st_size // 2)


@pytest.mark.parametrize("damage", [lose, cut])
def test_a_file_that_is_not_that_of_the_checkpoint_is_refused(damage, tmp_path):
    kept = made(tmp_path)
    block(kept, 0)
    older = checkpoint(kept)
    block(kept, 1)
    checkpoint(kept)
    with pytest.raises(InputError, match=r"belongs to the checkpoint; got the one of checkpoint 2"):
        made(tmp_path, begun=False).go_on(older)
    damage(tmp_path / keptlatents.FILE)
    with pytest.raises(InputError, match=r"belongs to the checkpoint; got"):
        made(tmp_path, begun=False).go_on(kept.arrays())
    with pytest.raises(InputError, match="begun by another release: begin anew in another folder"):
        made(tmp_path, begun=False).go_on({})


def test_the_file_of_another_run_is_refused_though_its_checkpoints_have_the_same_numbers(tmp_path):
    one, other = made(tmp_path / "one"), made(tmp_path / "other")
    for kept in (one, other):
        block(kept, 0)
        arrays = checkpoint(kept)
    shutil.copy(one.path, other.path)
    with pytest.raises(InputError, match=r"belongs to the checkpoint; got that of another run"):
        made(tmp_path / "other", begun=False).go_on(arrays)


def test_a_full_disk_is_told_before_the_first_sweep_and_leaves_nothing(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(keptlatents, "os", types.SimpleNamespace(**vars(os) | {"posix_fallocate": full}))
    with pytest.raises(GpbaeError, match=r"Latents of 50 rows need .* GB in .*; got No space left.*'amortised'"):
        made(tmp_path)
    assert not list(tmp_path.iterdir())


def test_room_is_taken_where_the_system_cannot_reserve_it(tmp_path, monkeypatch):
    whole = dict(vars(os))
    whole.pop("posix_fallocate", None)
    monkeypatch.setattr(keptlatents, "os", types.SimpleNamespace(**whole))
    kept = made(tmp_path)
    block(kept, 0)
    assert (tmp_path / keptlatents.FILE).stat().st_size > 4 * CHAINS * N * C
