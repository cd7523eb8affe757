"""Tables at the door: columns as numbers and back, transforms, a likelihood for each column, tables on disk."""

from gpbae.tabular.ondisk import OnDisk, from_parquet

__all__ = ["OnDisk", "from_parquet"]
