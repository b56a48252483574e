"""Rebuilds a lake table as a shadow table, and swaps the shadow table in by one commit.

1. *Begin* makes an empty shadow table: ``<name>__rebuild<generation>``. The same commit records
   where its first batch starts, if the log no longer holds the table's beginning, or held another
   table before. Or its rows are read from the source first (`shadow_rows.ShadowFromSource`), or
   come by a snapshot of the connector (`shadow_rows.ShadowFromSignal`, or a person's).
2. *Fill* merges the log into the shadow table, by the same batches as any table. The lake table
   is replicated meanwhile, if that is possible.
3. *Swap* (`swap`) tags the lake table's head, and replaces its rows and offsets by those of the
   shadow table in one commit: readers see the old rows, or the new ones. From there on the lake
   table has the offsets, and the side table, of the shadow table.
4. *Tidy* drops the shadow table. The tag stays, and with it the old rows, until they are forgotten.

Each step looks at the lake first (`tables.RebuildStanding`), so that all of them can be
interrupted and repeated. The number of rebuilds is published with the rows: it distinguishes a
shadow table that was swapped in from one that is still being filled. Of two processes at one table,
one conflicts: the shadow table has an id, which each batch checks, and neither process fills or
swaps in a shadow table that it has not begun with.

While a rebuild is under way, the table has a directive (`cdc_assets.operate.rebuilds`), also while
no process works at it.
"""
