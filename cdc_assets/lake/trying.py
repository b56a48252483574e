"""Tests by trying whether files can be written to the warehouse and deleted from it."""

from __future__ import annotations

from typing import Final

from pyiceberg.io import load_file_io

from cdc_assets.errors import UnreachableError
from cdc_assets.lake.connection import CatalogConnection

_TRIED: Final = b"written by cdc-assets assess; may be deleted"


def try_place(connection: CatalogConnection, place: str) -> str:
    """Writes a file of a few bytes, reads it, and deletes it.

    Args:
        connection: provides the properties for access to files.
        place: URL of a file that nobody else writes.

    Returns:
        The place, if the file cannot be deleted; empty if it is gone.

    Raises:
        UnreachableError: if it cannot be written, or cannot be read.
    """
    io = load_file_io(connection.catalog.properties, place)
    try:
        with io.new_output(place).create(overwrite=True) as out:
            out.write(_TRIED)
        with io.new_input(place).open() as found:
            is_same = found.read() == _TRIED
    except Exception as error:  # each file system has its own exceptions
        raise _refused(place, type(error).__name__) from None
    try:
        io.delete(place)
        is_there = io.new_input(place).exists()
    except Exception:  # of any file system: what matters is that the file is still there
        return place
    if not is_same:
        raise _refused(place, "other bytes were read than were written")
    return place if is_there else ""


def _refused(place: str, why: str) -> UnreachableError:
    where = f"warehouse {place.rpartition('/')[0]}"
    what = f"the warehouse cannot be written to and read from ({why})"
    remedy = "allow reading, writing and deleting below it, and check lake.catalog.properties"
    return UnreachableError(what, where=where, remedy=remedy)
