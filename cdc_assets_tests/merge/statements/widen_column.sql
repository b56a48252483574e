ALTER TABLE `lake`.`shop_public`.`orders` ALTER COLUMN `price` TYPE decimal(12,2)
