"""Views of ordered mappings: those of `dict`, in both directions."""

from __future__ import annotations

import collections.abc as abc
from typing import TYPE_CHECKING, Any, Iterator, Mapping, Tuple

if TYPE_CHECKING:
    from . import TreeRange


class KeysView(abc.KeysView[bytes]):
    """The keys of a range, in order; a set."""

    __slots__ = ("_reverse",)
    _mapping: TreeRange

    def __init__(self, mapping: TreeRange, reverse: bool = False) -> None:
        super().__init__(mapping)
        self._reverse = reverse

    def __iter__(self) -> Iterator[bytes]:
        return self._mapping._iterate("keys", self._reverse)

    def __reversed__(self) -> Iterator[bytes]:
        return self._mapping._iterate("keys", not self._reverse)


class ValuesView(abc.ValuesView[bytes]):
    """The values of a range, in the order of their keys."""

    __slots__ = ("_reverse",)
    _mapping: TreeRange

    def __init__(self, mapping: TreeRange, reverse: bool = False) -> None:
        super().__init__(mapping)
        self._reverse = reverse

    def __iter__(self) -> Iterator[bytes]:
        return self._mapping._iterate("values", self._reverse)

    def __reversed__(self) -> Iterator[bytes]:
        return self._mapping._iterate("values", not self._reverse)

    def __contains__(self, value: object) -> bool:
        return any(value == other for other in self)


class ItemsView(abc.ItemsView[bytes, bytes]):
    """The keys and values of a range, in order; a set of pairs."""

    __slots__ = ("_reverse",)
    _mapping: TreeRange

    def __init__(self, mapping: TreeRange, reverse: bool = False) -> None:
        super().__init__(mapping)
        self._reverse = reverse

    def __iter__(self) -> Iterator[Tuple[bytes, bytes]]:
        return self._mapping._iterate("items", self._reverse)

    def __reversed__(self) -> Iterator[Tuple[bytes, bytes]]:
        return self._mapping._iterate("items", not self._reverse)


def is_equal(mapping: TreeRange, other: Mapping[Any, Any]) -> bool:
    """Report whether two mappings have the same items; stops at the first difference."""
    count = 0
    for key, value in mapping.items():
        if other.get(key) != value:
            return False
        count += 1
    return len(other) == count
