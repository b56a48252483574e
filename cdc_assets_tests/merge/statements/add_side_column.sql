ALTER TABLE `lake`.`shop_public`.`orders` ADD COLUMNS (`topic_id` string)
