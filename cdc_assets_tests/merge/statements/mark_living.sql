UPDATE `lake`.`a``b`.`x; DROP TABLE y` SET _cdc_deleted = false WHERE _cdc_deleted IS NULL
