"""Everything that an object holds, as plain values by path.

Used to compare what two neighbouring tables lead to, and to search results for
values that should not be there: attributes, slots, containers, arrays, cached
values and closures are all followed.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

Plain = str | bytes | int | float | bool | complex | None
_PLAIN = (str, bytes, int, float, bool, complex, type(None))
_OPAQUE = (type, types.ModuleType, types.BuiltinFunctionType, np.dtype, np.random.Generator)


def content(value: object, *, arrays: bool = False) -> dict[str, Plain]:
    """Plain values in `value` by the path that leads to them.

    With `arrays`, an array of numbers is one value, its bytes.
    """
    return dict(_walk(value, "", frozenset(), arrays))


def differences(first: object, second: object) -> list[str]:
    """Paths at which two objects hold different values."""
    one, two = content(first, arrays=True), content(second, arrays=True)
    return [
        path
        for path in dict.fromkeys((*one, *two))
        if path not in one or path not in two or not _same(one[path], two[path])
    ]


def _same(first: Plain, second: Plain) -> bool:
    both_nan = first != first and second != second
    return type(first) is type(second) and (first == second or both_nan)


def _walk(
    value: object, path: str, seen: frozenset[int], arrays: bool
) -> Iterator[tuple[str, Plain]]:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, _PLAIN):
        yield path, value
        return
    if isinstance(value, _OPAQUE) or id(value) in seen:
        return
    if arrays and isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        yield f"{path}{list(value.shape)}", value.tobytes()
        return
    # Ancestors only: they are alive, so that no other object has their id.
    seen = seen | {id(value)}
    for step, child in _children(value):
        yield from _walk(child, f"{path}{step}", seen, arrays)


def _children(value: Any) -> Iterator[tuple[str, object]]:
    if isinstance(value, np.ndarray):
        yield ".shape", str(value.shape)
        yield from ((f"[{i}]", item) for i, item in enumerate(value.ravel().tolist()))
    elif isinstance(value, Mapping):
        yield from ((f"[{key!r}]", item) for key, item in value.items())
    elif isinstance(value, list | tuple):
        yield from ((f"[{i}]", item) for i, item in enumerate(value))
    elif isinstance(value, set | frozenset):
        yield from ((f"{{{i}}}", item) for i, item in enumerate(sorted(value, key=repr)))
    elif isinstance(value, types.FunctionType):
        cells = value.__closure__ or ()
        yield from ((f".closure[{i}]", cell.cell_contents) for i, cell in enumerate(cells))
    elif isinstance(value, types.MethodType):
        yield ".self", value.__self__
    elif hasattr(value, "to_numpy") and hasattr(value, "index"):
        yield ".values", value.to_numpy()
        yield ".index", np.asarray(value.index)
    yield from _attributes(value)


def _attributes(value: Any) -> Iterator[tuple[str, object]]:
    held = {**_slots(value), **getattr(value, "__dict__", {})}
    yield from ((f".{name}", item) for name, item in held.items())


def _slots(value: Any) -> dict[str, object]:
    names = [
        name
        for kind in type(value).__mro__
        for name in _as_tuple(getattr(kind, "__slots__", ()))
        if name not in ("__dict__", "__weakref__")
    ]
    return {name: getattr(value, name) for name in names if hasattr(value, name)}


def _as_tuple(slots: Any) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)
