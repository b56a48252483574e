CREATE TABLE IF NOT EXISTS `lake`.`shop_public`.`orders` (
  `id` bigint NOT NULL,
  `price` decimal(12,2) COMMENT 'It\'s in €',
  `_cdc_valid_from` timestamp COMMENT 'Commit time of the change that made the version; of r: when read',
  `_cdc_valid_to` timestamp COMMENT 'The same of the change that ended it; empty while it is current',
  `_cdc_current` boolean COMMENT 'Whether nothing has ended it',
  `_cdc_op` string COMMENT 'What made it: c: created, u: updated, r: read by a snapshot',
  `_cdc_ended_by` string COMMENT 'What ended it: c, u, r as above, d: deleted, t: truncated; else empty',
  `_cdc_position` binary COMMENT 'Position of the change that made it; byte order is source order',
  `_cdc_end_position` binary COMMENT 'Position of the change that ended it',
  `_cdc_topic` string COMMENT 'Kafka topic of the change that made it',
  `_cdc_partition` int COMMENT 'Its partition there',
  `_cdc_offset` bigint COMMENT 'Its offset there',
  `_cdc_end_topic` string COMMENT 'Kafka topic of the change that ended it',
  `_cdc_end_partition` int COMMENT 'Its partition there',
  `_cdc_end_offset` bigint COMMENT 'Its offset there',
  `_cdc_unset` array<string> COMMENT 'Columns as in the previous version; empty if all had values',
  `_cdc_event` binary COMMENT 'Tells the change that made it from all others',
  `_cdc_end_event` binary COMMENT 'Tells the change that ended it from all others',
  `_cdc_read_again` array<struct<position: binary, ts: timestamp, event: binary, topic: string, partition: int, offset: bigint>> COMMENT 'Where snapshots have read the row again as it is; empty if none has'
) USING iceberg
PARTITIONED BY (`_cdc_current`)
COMMENT 'Orders'
TBLPROPERTIES ()
