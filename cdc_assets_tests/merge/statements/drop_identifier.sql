ALTER TABLE `lake`.`shop_public`.`orders` DROP IDENTIFIER FIELDS `id`, `b``c`
