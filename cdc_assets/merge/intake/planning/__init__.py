"""Does steps 1 and 2 of a batch: reads the table and the log, and chooses the batch's end.

Planning changes nothing, neither in the lake nor in the log.
"""

from cdc_assets.merge.intake.planning.cuts import Extent, TransactionTopics
from cdc_assets.merge.intake.planning.pending import Pending, rest_of, spans
from cdc_assets.merge.intake.planning.planner import Planner
from cdc_assets.merge.intake.planning.topics import BEGIN, BEGIN_TOPIC, BEGIN_WHOLE, begin_of

__all__ = [
    "BEGIN",
    "BEGIN_TOPIC",
    "BEGIN_WHOLE",
    "Extent",
    "Pending",
    "Planner",
    "TransactionTopics",
    "begin_of",
    "rest_of",
    "spans",
]
