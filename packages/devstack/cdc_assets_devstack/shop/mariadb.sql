-- The same shop. Where MariaDB has no such type: documents and lists are JSON texts, and UUIDs
-- are texts because Debezium 3.5.0 misreads a `uuid` that ends with a zero byte. The types are
-- written as SHOW CREATE TABLE gives them: Debezium takes `boolean` and `json` for other types
-- in a snapshot than in a statement that it reads from the binlog.

CREATE TABLE customers (
    id          bigint      NOT NULL AUTO_INCREMENT PRIMARY KEY,
    public_id   char(36)    NOT NULL COMMENT 'The id that other systems see',
    name        text        NOT NULL,
    email       text        COMMENT 'Absent after a request to be forgotten',
    born        date,
    newsletter  tinyint(1)  NOT NULL DEFAULT 0,
    tags        longtext    NOT NULL DEFAULT '[]' COMMENT 'Segments, in no order' CHECK (json_valid(tags)),
    preferences longtext    CHECK (json_valid(preferences)),
    created_at  timestamp(6) NOT NULL DEFAULT current_timestamp(6)
) COMMENT 'People who may order';

CREATE TABLE products (
    id             bigint        NOT NULL AUTO_INCREMENT PRIMARY KEY,
    sku            varchar(64)   NOT NULL UNIQUE,
    name           text          NOT NULL,
    price          decimal(12,2) NOT NULL COMMENT 'In euro, tax included',
    weight_kg      double,
    attributes     longtext      NOT NULL DEFAULT '{}' CHECK (json_valid(attributes)),
    thumbnail      blob,
    active         tinyint(1)    NOT NULL DEFAULT 1,
    available_from datetime(6)   COMMENT 'Local time of the warehouse'
) COMMENT 'What the shop sells';

CREATE TABLE inventory (
    product_id bigint       NOT NULL,
    warehouse  varchar(40)  NOT NULL,
    on_hand    bigint       NOT NULL,
    counted_at timestamp(6) NOT NULL DEFAULT current_timestamp(6),
    PRIMARY KEY (product_id, warehouse)
) COMMENT 'Pieces in each warehouse';

CREATE TABLE orders (
    id           bigint        NOT NULL AUTO_INCREMENT PRIMARY KEY,
    customer_id  bigint        NOT NULL,
    status       enum('placed', 'paid', 'shipped', 'delivered', 'cancelled') NOT NULL DEFAULT 'placed',
    total        decimal(14,2) NOT NULL,
    note         text,
    promised_for date          COMMENT 'Day of delivery that the customer was told',
    placed_at    timestamp(6)  NOT NULL DEFAULT current_timestamp(6),
    KEY (status)
) COMMENT 'One row for each order; cancelled ones are deleted after a while';

CREATE TABLE order_items (
    order_id   bigint        NOT NULL,
    line       bigint        NOT NULL,
    product_id bigint        NOT NULL,
    quantity   bigint        NOT NULL,
    unit_price decimal(12,2) NOT NULL,
    discount   decimal(5,4)  NOT NULL DEFAULT 0 COMMENT 'Share of the price, 0.2500 is a quarter',
    PRIMARY KEY (order_id, line)
) COMMENT 'Lines of an order';

CREATE TABLE payments (
    id         char(36)      NOT NULL PRIMARY KEY,
    order_id   bigint        NOT NULL,
    amount     decimal(14,2) NOT NULL,
    fee        double,
    receipt    blob          COMMENT 'As the provider signed it',
    settled    tinyint(1)    NOT NULL DEFAULT 0,
    settled_at datetime(6)   COMMENT 'Local time of the provider',
    KEY (order_id),
    KEY (settled)
) COMMENT 'Money received';
