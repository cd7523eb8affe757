"""A dataset's file is the right one, or there is one sentence saying what to do."""

import functools
import http.server
import threading
import zipfile

import numpy as np
import pandas as pd
import pytest

from gpbae.data import registry
from gpbae.data.sources import DATASETS, FILES, File, keep_threes
from gpbae.errors import GpbaeError, InputError

JURA = "jura/jura_prediction_259.csv"


@pytest.fixture
def empty_machine(tmp_path, monkeypatch):
    """No data folder, an empty cache."""
    monkeypatch.delenv("GPBAE_DATA_DIR", raising=False)
    monkeypatch.setattr(registry, "cache_dir", lambda: tmp_path / "cache")
    return tmp_path


@pytest.fixture
def website(tmp_path):
    """A local server of the folder `site`; the address it answers at."""
    site = tmp_path / "site"
    site.mkdir()
    handler = functools.partial(_Quiet, directory=site)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", site
        server.shutdown()
        thread.join()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format, *args):
        pass


def _contents(folder):
    return {path for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("key", FILES)
def test_stored_files_have_their_registered_bytes_and_contents(data_dir, key):
    assert registry.locate(key) == data_dir / key
    assert registry._sha256(data_dir / key) == FILES[key].sha256
    if FILES[key].contents:
        assert registry.contents_sha256(data_dir / key) == FILES[key].contents


def test_every_dataset_names_registered_files_and_every_file_says_how_it_is_come_by():
    assert {key for dataset in DATASETS.values() for key in dataset.files} <= set(FILES)
    assert all(file.remedy.endswith(".") for file in FILES.values())
    assert all(file.url.startswith("https://") for file in FILES.values() if file.url)
    direct = [(key, file) for key, file in FILES.items() if file.url and file.convert is None]
    assert all(file.url.endswith(f"/{key.split('/')[-1]}") for key, file in direct)  # or the cache would never hit


def test_fetching_gives_all_files_of_a_dataset(data_dir):
    assert registry.fetch("jura") == tuple(data_dir / key for key in DATASETS["jura"].files)
    assert registry.fetch("moving-ball") == ()
    with pytest.raises(InputError, match=r"moving-ball.*got 'nonsense'"):
        registry.fetch("nonsense")


def test_a_table_written_again_by_another_program_is_the_same_table(data_dir, empty_machine, monkeypatch):
    table = pd.read_csv(data_dir / JURA)
    copy = empty_machine / JURA
    copy.parent.mkdir()
    table.map(lambda v: f"{v:g}").to_csv(copy, index=False, lineterminator="\r\n", quoting=1)
    monkeypatch.setenv("GPBAE_DATA_DIR", str(empty_machine))
    assert copy.read_bytes() != (data_dir / JURA).read_bytes() and registry.locate(JURA) == copy


def test_arrays_saved_again_with_other_types_are_the_same_arrays(data_dir, tmp_path):
    key = "era5_uk_t2m/era5_t2m_uk_2019_03.npz"
    with np.load(data_dir / key, allow_pickle=False) as stored:
        np.savez(tmp_path / "again.npz", **{name: stored[name].astype(float) for name in stored.files})
    assert registry.contents_sha256(tmp_path / "again.npz") == FILES[key].contents


@pytest.mark.parametrize("damage", ["one digit", "cut short", "empty", "not text"])
def test_a_wrong_file_in_the_data_folder_is_refused(data_dir, empty_machine, monkeypatch, damage):
    good = (data_dir / JURA).read_bytes()
    bad = {
        "one digit": good.replace(b"1.74", b"1.75", 1),
        "cut short": good[:-100],
        "empty": b"",
        "not text": b"\xff\0",
    }
    copy = empty_machine / JURA
    copy.parent.mkdir()
    copy.write_bytes(bad[damage])
    monkeypatch.setenv("GPBAE_DATA_DIR", str(empty_machine))
    with pytest.raises(InputError, match="its contents differ; replace it: in R run"):
        registry.locate(JURA)


def test_a_file_without_direct_download_says_how_to_make_it_and_where_to_put_it(empty_machine):
    with pytest.raises(GpbaeError, match="no direct download: in R run") as caught:
        registry.locate(JURA)
    assert str(empty_machine / "cache" / JURA) in str(caught.value) and str(caught.value).count("\n") == 0


def test_a_file_put_into_the_cache_is_found_and_a_damaged_one_is_not(data_dir, empty_machine, monkeypatch):
    cached = empty_machine / "cache" / JURA
    cached.parent.mkdir(parents=True)
    cached.write_bytes((data_dir / JURA).read_bytes())
    monkeypatch.delenv("GPBAE_DATA_DIR", raising=False)
    assert registry.find(JURA) == cached
    cached.write_bytes(b"Xloc\n1\n")
    assert registry.find(JURA) is None


def test_download_is_kept_when_its_checksum_is_right(empty_machine, website, monkeypatch):
    address, site = website
    (site / "table.csv").write_text("a,b\n1,2\n")
    monkeypatch.setitem(FILES, "some/table.csv", _file(site / "table.csv", address))
    path = registry.locate("some/table.csv")
    assert path == empty_machine / "cache" / "some" / "table.csv" and path.read_text() == "a,b\n1,2\n"
    (site / "table.csv").unlink()
    assert registry.locate("some/table.csv") == path


@pytest.mark.parametrize("failure", ["changed", "cut short", "gone"])
def test_a_failed_download_leaves_no_file(empty_machine, website, monkeypatch, failure):
    address, site = website
    public = site / "table.csv"
    public.write_text("a,b\n1,2\n")
    monkeypatch.setitem(FILES, "some/table.csv", _file(public, address))
    public.unlink()
    if failure != "gone":
        public.write_text({"changed": "a,b\n1,3\n", "cut short": "a,"}[failure])
    with pytest.raises(GpbaeError, match=f"Could not download some/table.csv from {address}.*ask the author"):
        registry.locate("some/table.csv")
    assert _contents(empty_machine / "cache") == set()


def test_the_threes_are_taken_out_of_the_full_mnist(data_dir, empty_machine, website, monkeypatch):
    """A stand-in for the public file: the stored threes at their places among blank other digits."""
    key, (address, site) = "mnist/mnist_threes.npz", website
    _full_mnist(data_dir / key, site / "mnist.npz")
    file = _file(site / "mnist.npz", address)
    stand_in = File(FILES[key].sha256, FILES[key].contents, file.url, file.url_sha256, keep_threes, FILES[key].remedy)
    monkeypatch.setitem(FILES, key, stand_in)
    monkeypatch.delenv("GPBAE_DATA_DIR", raising=False)
    assert registry.contents_sha256(registry.locate(key)) == FILES[key].contents
    assert _contents(empty_machine / "cache") == {empty_machine / "cache" / key}


def test_a_conversion_with_the_wrong_outcome_leaves_no_file(empty_machine, website, monkeypatch):
    address, site = website
    zipfile.ZipFile(site / "mnist.npz", "w").close()
    file = _file(site / "mnist.npz", address)
    broken = File("0" * 64, "0" * 64, file.url, file.url_sha256, lambda source, target: target.write_bytes(b"x"), "no.")
    monkeypatch.setitem(FILES, "mnist/made.npz", broken)
    with pytest.raises(InputError, match="its contents differ"):
        registry.locate("mnist/made.npz")
    assert not [path for path in _contents(empty_machine / "cache") if path.name.endswith("made.npz")]


def _file(public, address):
    checksum = registry._sha256(public)
    return File(checksum, url=f"{address}/{public.name}", url_sha256=checksum, remedy="ask the author.")


def _full_mnist(threes, target):
    arrays = {}
    with np.load(threes, allow_pickle=False) as stored:
        for split, size in (("train", 60000), ("test", 10000)):
            images, labels = np.zeros((size, 28, 28), np.uint8), np.zeros(size, np.uint8)
            images[stored[f"{split}_index"]], labels[stored[f"{split}_index"]] = stored[f"{split}_images"], 3
            arrays |= {f"x_{split}": images, f"y_{split}": labels}
    np.savez_compressed(target, **arrays)
