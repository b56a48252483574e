MERGE INTO `lake`.`shop_public`.`orders`.`branch_cdc_1` AS t USING `new_1` AS b ON t.`topic` = b.`topic` AND t.`offset` = b.`offset`
WHEN MATCHED AND NOT (t.`reason` <=> b.`reason`) THEN UPDATE SET t.`reason` = b.`reason`
