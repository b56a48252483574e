CREATE TABLE IF NOT EXISTS `lake`.`shop_public`.`orders` (
  `id` bigint NOT NULL,
  `price` decimal(12,2) COMMENT 'It\'s in €',
  `_cdc_position` binary COMMENT 'Position of the newest change in this row; byte order is source order',
  `_cdc_ts` timestamp COMMENT 'Commit time of that change at the source; empty for snapshot rows',
  `_cdc_deleted` boolean COMMENT 'Whether the source has deleted the row',
  `_cdc_deleted_at` timestamp COMMENT 'Commit time of the delete at the source'
) USING iceberg
COMMENT 'Orders'
TBLPROPERTIES ()
