DELETE FROM `lake`.`shop_public`.`orders`.`branch_cdc_1` AS t WHERE EXISTS (SELECT /*+ MERGE(b) */ 1 FROM `keys_1` AS b WHERE t.`id` = b.`id`)
