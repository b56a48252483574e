ALTER TABLE `lake`.`shop_public`.`orders` SET TBLPROPERTIES ('a' = 'b')
