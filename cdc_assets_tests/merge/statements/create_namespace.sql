CREATE NAMESPACE IF NOT EXISTS `lake`.`shop_public`
