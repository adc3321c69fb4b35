"""Documents of the lab as typed values: parsed text, and JSON that a program wrote."""

from typing import Any, TypeVar

import msgspec

from kubedsm.config.documents import DocumentError, split_location

T = TypeVar("T")


def convert_to(value: Any, shape: type[T]) -> T:
    """Convert a parsed document value to a Python type by msgspec. Raises DocumentError."""
    try:
        return msgspec.convert(value, shape)
    except msgspec.ValidationError as error:
        reason, place = split_location(error)
        raise DocumentError(reason, (place,) if place else ()) from None


def json_as(text: bytes, shape: type[T]) -> T:
    """Decode JSON that a program wrote, such as a saved file, to the given Python type. Raises
    DocumentError if invalid.
    """
    try:
        return msgspec.json.decode(text, type=shape)
    except msgspec.ValidationError as error:
        reason, place = split_location(error)
        raise DocumentError(reason, (place,) if place else ()) from None
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise DocumentError(f"not JSON: {error}") from None
