CALL `lake`.system.fast_forward(table => '`a``b`.`x; DROP TABLE y`', branch => 'main', to => 'cdc_1')
