DELETE FROM `lake`.`shop_public`.`orders`.`branch_cdc_1` WHERE `sh``ard` = 'it\'s \\ one' AND (_cdc_position IS NULL OR _cdc_position < X'00FF')
