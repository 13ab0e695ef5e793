"""Types of arguments, for annotations."""

from typing import Any, Callable, Iterable, Literal, Mapping, Optional, Sequence, Tuple, Union

Bytes = Union[bytes, bytearray]
Durability = Literal["process", "power"]
# The key, the value before the operands, and these, oldest first; None: the key has no value.
Fold = Callable[[bytes, Optional[bytes], "list[bytes]"], Optional[Bytes]]
Pairs = Union[Mapping[bytes, bytes], Mapping[bytes, bytearray], Iterable[Tuple[Bytes, Bytes]]]
# The values of a statement's markers, in order or by name.
Values = Union[Sequence[Any], Mapping[str, Any]]
