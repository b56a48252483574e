CREATE TABLE IF NOT EXISTS `lake`.`shop_public`.`orders` (
  `sh``ard` string NOT NULL,
  `id` bigint NOT NULL,
  `price` decimal(12,2) COMMENT 'It\'s in €',
  `_cdc_position` binary COMMENT 'Position of the newest change in this row; byte order is source order',
  `_cdc_ts` timestamp COMMENT 'Commit time of that change at the source; empty for snapshot rows'
) USING iceberg
PARTITIONED BY (`sh``ard`)
COMMENT 'Orders'
TBLPROPERTIES ()
