ALTER TABLE `lake`.`shop_public`.`orders` CREATE BRANCH `cdc_1` AS OF VERSION 42
