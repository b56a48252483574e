"""The modes of tables: what each decides about the batches that are merged into them."""
