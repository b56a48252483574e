ALTER TABLE `lake`.`shop_public`.`orders` ADD COLUMNS (`id` bigint, `price` decimal(12,2) COMMENT 'It\'s in €')
