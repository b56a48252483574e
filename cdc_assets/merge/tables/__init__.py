"""Tables that the lake has beside or before the batch: rows, remembered deletes, events."""
