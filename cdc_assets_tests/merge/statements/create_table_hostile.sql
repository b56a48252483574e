CREATE TABLE IF NOT EXISTS `lake`.`a``b`.`x; DROP TABLE y` (
  `id` bigint NOT NULL,
  `price` decimal(12,2) COMMENT 'It\'s in €',
  `_cdc_position` binary COMMENT 'Position of the newest change in this row; byte order is source order',
  `_cdc_ts` timestamp COMMENT 'Commit time of that change at the source; empty for snapshot rows'
) USING iceberg
COMMENT 'Orders'
TBLPROPERTIES ('k\'' = 'back\\slash')
