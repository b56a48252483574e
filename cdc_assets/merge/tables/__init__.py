"""Tables that the lake has before or beside the batch: rows, remembered deletes, events."""
