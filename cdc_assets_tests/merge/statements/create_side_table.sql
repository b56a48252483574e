CREATE TABLE IF NOT EXISTS `lake`.`shop_public`.`orders` (
  `id` bigint
) USING iceberg
TBLPROPERTIES ('a' = 'b')
