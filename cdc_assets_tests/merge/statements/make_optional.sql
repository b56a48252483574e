ALTER TABLE `lake`.`shop_public`.`orders` ALTER COLUMN `b``c` DROP NOT NULL
