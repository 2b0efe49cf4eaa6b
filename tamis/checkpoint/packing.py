"""A state taken apart: its tensors as one safetensors file, all else as JSON."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, BinaryIO, NamedTuple

import torch
from torch import Tensor

from tamis.checkpoint.blocks import HeldBlocks
from tamis.checkpoint.files import MOST_JSON, DamagedFileError, parse, size_of

State = dict[str, Any]
"""Numbers, text, None and tensors, in lists, tuples, counters and dicts of them."""
MARK = "$"
"""Begins the only key of an object that represents a type unknown to JSON."""
MARKED, PLACES, SUMS = "$blocks", "/places", "/sums"
"""The mark of rows in blocks, and what is appended to their name for the names of their tables."""
TYPES = {
    "BOOL": torch.bool, "U8": torch.uint8, "I8": torch.int8, "I16": torch.int16,
    "I32": torch.int32, "I64": torch.int64, "F16": torch.float16, "BF16": torch.bfloat16,
    "F32": torch.float32, "F64": torch.float64,
}  # fmt: skip
NAMES = {kind: name for name, kind in TYPES.items()}


class Entry(NamedTuple):
    """Type, shape and position of a tensor in the file."""

    kind: torch.dtype
    shape: tuple[int, ...]
    begin: int
    end: int


def pack(state: object, tensors: dict[str, Tensor | HeldBlocks], path: str = "") -> Any:
    """Return a state as JSON; its tensors are collected under the path that leads to each."""
    if state is None or isinstance(state, bool | int | str):
        return state
    if isinstance(state, float):
        return float(state) if math.isfinite(state) else {"$float": repr(float(state))}
    if isinstance(state, Tensor):
        if path in tensors or state.dtype not in NAMES:
            raise TypeError(f"{path} is a tensor of {state.dtype}, or there twice.")
        tensors[path] = state.detach()
        return {"$tensor": path} | ({} if state.is_cpu else {"$device": state.device.type})
    if isinstance(state, HeldBlocks):
        tensors[path] = state
        return {MARKED: path, "shape": list(state.shape), "kind": NAMES[state.dtype]}
    if isinstance(state, list | tuple):
        items = [pack(item, tensors, f"{path}/{at}") for at, item in enumerate(state)]
        return items if isinstance(state, list) else {"$tuple": items}
    if isinstance(state, Mapping):
        items = [[key, pack(item, tensors, f"{path}/{key}")] for key, item in state.items()]
        if isinstance(state, Counter):
            return {"$counter": items}
        plain = all(isinstance(key, str) and not key.startswith(MARK) for key in state)
        return dict(items) if plain else {"$pairs": items}
    raise TypeError(f"{path or 'The state'} is {type(state).__name__}, which takes pickle to save.")


def unpack(packed: Any, tensors: Mapping[str, Any], device: torch.device) -> Any:
    """Return the state that was packed; what was not on the CPU goes to the device."""
    if isinstance(packed, list):
        return [unpack(item, tensors, device) for item in packed]
    if not isinstance(packed, dict):
        return packed
    marks = [key for key in packed if key.startswith(MARK)]
    if not marks:
        return {key: unpack(item, tensors, device) for key, item in packed.items()}
    try:
        if "$tensor" in packed:
            tensor = tensors[packed["$tensor"]]
            return tensor.to(device) if packed.get("$device", "cpu") != "cpu" else tensor
        if MARKED in packed:
            return tensors[packed[MARKED]]
        ((mark, content),) = packed.items()
        if mark == "$float":
            return float(content)
        return MAKERS[mark](unpack(content, tensors, device))
    except (KeyError, TypeError, ValueError):
        raise DamagedFileError(f"its state holds {marks[0]} that means nothing") from None


def count_up(pairs: list[Any]) -> Counter[Any]:
    """Return a counter of pairs, in their order."""
    return Counter(dict(pairs))


MAKERS: dict[str, Callable[[Any], Any]] = {"$tuple": tuple, "$counter": count_up, "$pairs": dict}


def pack_texts(texts: Iterable[str]) -> Tensor:
    """Return texts as one tensor of bytes: far smaller in a checkpoint than a list of strings.

    >>> unpack_texts(pack_texts(["a", "", "b\\0c"]))
    ['a', '', 'b\\x00c']
    """
    return torch.frombuffer(bytearray(json.dumps(list(texts)).encode()), dtype=torch.uint8)


def unpack_texts(packed: Tensor) -> list[str]:
    """Return the texts of a tensor that `pack_texts` made."""
    return [str(text) for text in json.loads(packed.cpu().numpy().tobytes())]


def named_tensors(packed: Any) -> Iterator[str]:
    """Yield the names of all tensors of a packed state."""
    for item in packed.values() if isinstance(packed, dict) else packed:
        if isinstance(item, dict) and isinstance(name := item.get("$tensor"), str):
            yield name
        elif isinstance(item, dict) and isinstance(name := item.get(MARKED), str):
            yield from (name + PLACES, name + SUMS)
        elif isinstance(item, dict | list):
            yield from named_tensors(item)


def encode_tensors(tensors: Mapping[str, Tensor]) -> Iterator[bytes | memoryview]:
    """Write tensors in the format of safetensors, one at a time: none is held twice."""
    header, begin = {}, 0
    for name, tensor in tensors.items():
        end = begin + tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [begin, end],
        }
        begin = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # so that numbers lie where a machine reads them fastest
    yield len(text).to_bytes(8, "little")
    yield text
    for tensor in tensors.values():
        if tensor.numel():
            # One number of a column counts as contiguous whatever its stride, and has no bytes.
            flat = tensor.detach().cpu().contiguous().as_strided((tensor.numel(),), (1,))
            yield memoryview(flat.view(torch.uint8).numpy())  # type: ignore[arg-type]


def read_header(name: str, file: BinaryIO) -> dict[str, Entry]:
    """Return which tensors a file holds; every size in it is checked against the file first."""
    size = size_of(file)
    length = int.from_bytes(file.read(8), "little")
    if length > min(MOST_JSON, size - 8):
        raise DamagedFileError(f"{name} has no header that fits it")
    header = parse(name, file.read(length))
    file.seek(0)
    try:
        entries = {key: to_entry(entry) for key, entry in header.items() if key != "__metadata__"}
    except (AttributeError, KeyError, TypeError, ValueError):
        raise DamagedFileError(f"{name} has a header that does not describe tensors") from None
    for key, entry in entries.items():
        wanted = math.prod(entry.shape) * entry.kind.itemsize
        if (
            not (0 <= entry.begin <= entry.end <= size - 8 - length)
            or min(entry.shape, default=0) < 0
        ):
            raise DamagedFileError(f"{name} has no room for {key}")
        if wanted != entry.end - entry.begin:
            raise DamagedFileError(
                f"{name} has {entry.end - entry.begin} bytes for {key}, of {entry.shape}"
            )
    return entries


def to_entry(entry: Any) -> Entry:
    """Return one entry of a header; integers only."""
    shape, (begin, end) = entry["shape"], entry["data_offsets"]
    if not all(type(number) is int for number in (*shape, begin, end)):
        raise TypeError
    return Entry(TYPES[entry["dtype"]], tuple(shape), begin, end)


def blanks(entries: Mapping[str, Entry]) -> dict[str, Tensor]:
    """Return tensors of these shapes that take no memory, to be checked before any is read."""
    return {
        name: torch.empty(entry.shape, dtype=entry.kind, device="meta")
        for name, entry in entries.items()
    }


def read_tensors(file: BinaryIO) -> dict[str, Tensor]:
    """Return all tensors of a file whose header was checked."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        return load(file.read())
    except SafetensorError as error:
        raise DamagedFileError(f"its tensors cannot be read ({error})") from None
