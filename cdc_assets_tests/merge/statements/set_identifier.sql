ALTER TABLE `lake`.`shop_public`.`orders` SET IDENTIFIER FIELDS `id`, `b``c`
