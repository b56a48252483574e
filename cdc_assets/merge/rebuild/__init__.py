"""Builds a lake table anew beside the old one, and swaps it in at once.

1. *Begin* (`beginning`) makes an empty table beside: ``<name>__rebuild<generation>``. In the same
   commit it records where its first batch starts, if the log no longer holds its beginning, or held
   another table before it. Or its rows are read from the source first
   (`cdc_assets.merge.resnapshot.beside`), or a snapshot is waited for (`snapshot`).
2. *Fill* (`filling`) merges the log into it, by the same batches as any table. The old one goes on
   being replicated, if it can be.
3. *Swap* (`swapping`) tags the old table's head, and puts the rows and the offsets of the new one
   in its place in one commit (`overwriting`, `replacing`): readers see the old rows, or the new
   ones. Both are of one snapshot (`seen_rows`). From there on the table goes on with the
   offsets, and with the side table, that it was built with.
4. *Tidy* (`tidying`) drops the table beside. The tag stays, and with it the old rows, until they
   are forgotten.

Each step looks at what is there (`standing`), so that all of them can be interrupted and done
again. The number of rebuilds is published with the rows: it tells a rebuild that was swapped in
from one that is still being filled. Of two processes at one table, one conflicts: the table beside
has an id, which each batch looks at, and neither fills nor swaps in another one than it has begun
with.
"""

from cdc_assets.merge.rebuild.rebuild import Rebuild
from cdc_assets.merge.rebuild.site import KEPT
from cdc_assets.merge.rebuild.standing import ID, READ_BESIDE, Standing

__all__ = ["ID", "KEPT", "READ_BESIDE", "Rebuild", "Standing"]
