CREATE TABLE IF NOT EXISTS `lake`.`shop_public`.`orders` (
  `id` bigint,
  `price` decimal(12,2) COMMENT 'It\'s in €',
  `_cdc_op` string COMMENT 'c: created, u: updated, d: deleted, r: read by a snapshot, t: truncated',
  `_cdc_position` binary COMMENT 'Position of the change; byte order is source order',
  `_cdc_ts` timestamp COMMENT 'Commit time of the change at the source; empty for snapshot rows',
  `_cdc_topic` string COMMENT 'Kafka topic of the change',
  `_cdc_partition` int COMMENT 'Its partition there',
  `_cdc_offset` bigint COMMENT 'Its offset there',
  `_cdc_unset` array<string> COMMENT 'Columns that the change leaves alone and does not tell; else empty',
  `_cdc_event` binary COMMENT 'Tells the change from all others, however often it is delivered'
) USING iceberg
COMMENT 'Orders'
TBLPROPERTIES ()
