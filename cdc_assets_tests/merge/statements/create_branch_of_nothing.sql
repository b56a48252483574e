ALTER TABLE `lake`.`shop_public`.`orders` CREATE BRANCH `cdc_1`
