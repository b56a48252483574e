"""Reads Kafka: topics, offsets, hour windows."""

from cdc_assets.log.hours import HOURS_START, HourWindow, WindowOffsets, hour_of
from cdc_assets.log.kafka import KafkaLog
from cdc_assets.log.values import RawRecord, TopicIdentity, Watermarks

__all__ = [
    "HOURS_START",
    "HourWindow",
    "KafkaLog",
    "RawRecord",
    "TopicIdentity",
    "Watermarks",
    "WindowOffsets",
    "hour_of",
]
