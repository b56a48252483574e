MERGE INTO `lake`.`shop_public`.`orders`.`branch_cdc_1` AS t USING `new_1` AS b ON t.`topic` = b.`topic` AND t.`offset` = b.`offset` AND (t.`topic_id` IS NULL OR t.`topic_id` = b.`topic_id`)
WHEN MATCHED AND NOT (t.`reason` <=> b.`reason`) THEN UPDATE SET t.`reason` = b.`reason`
