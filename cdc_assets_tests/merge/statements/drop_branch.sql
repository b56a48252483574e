ALTER TABLE `lake`.`shop_public`.`orders` DROP BRANCH IF EXISTS `cdc_1`
