"""Results as objects of pyarrow and pandas, which are optional dependencies."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import ArrowReader


def load(module: str, extra: str) -> Any:
    """Import an optional dependency."""
    try:
        return import_module(module)
    except ImportError as e:
        raise ImportError(f"{module} is missing: pip install 'firn-db[{extra}]'", name=module) from e


def reader(source: ArrowReader) -> Any:
    """Return the batches as a `pyarrow.RecordBatchReader`. Errors are Firn's exceptions."""
    arrow = load("pyarrow", "arrow")
    return arrow.RecordBatchReader.from_batches(arrow.schema(source), map(arrow.record_batch, source))


def table(source: ArrowReader) -> Any:
    """Return all batches as a `pyarrow.Table`."""
    return reader(source).read_all()


def frame(source: ArrowReader) -> Any:
    """Return all batches as a `pandas.DataFrame`."""
    load("pandas", "pandas")
    load("pyarrow", "pandas")
    return table(source).to_pandas()
