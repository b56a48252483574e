-- What happens while the connectors run. Each paragraph is one transaction.

INSERT INTO customers (id, public_id, name, born, created_at) VALUES
    (3, '55555555-5555-4555-8555-555555555555', 'Grace', '1906-12-09', '2026-03-01 00:00:00+00');

UPDATE orders SET status = 'shipped', total = 120.51 WHERE id = 1;

-- Leaves every large value alone.
UPDATE large SET n = 2 WHERE id = 1;

-- Leaves some of them alone.
UPDATE large SET n = 3, body = 'short', doc = NULL WHERE id = 1;

-- Several tables at once.
INSERT INTO orders VALUES (3, 3, 'placed', 99999999999.99, 'ünïcode', '2026-04-01', '2026-03-01 10:00:00+00');
INSERT INTO payments VALUES ('66666666-6666-4666-8666-666666666666', 3, 99999999999.99, NULL, NULL, false, NULL);
UPDATE customers SET email = 'grace@example.org', tags = '{new}' WHERE id = 3;

-- A changed key: a delete, its tombstone, a create.
UPDATE kinds SET id = 12, an_int = 42 WHERE id = 2;

-- With a whole row before it (REPLICA IDENTITY FULL), and its tombstone.
DELETE FROM payments WHERE order_id = 1;

-- With its key alone before it, and its tombstone.
DELETE FROM orders WHERE id = 2;

-- The second writer schema of a table, with rows in the transaction after it…
ALTER TABLE kinds ADD COLUMN added text NOT NULL DEFAULT 'none', ADD COLUMN added_amount numeric(10,3);

INSERT INTO kinds (id, a_numeric, added, added_amount) VALUES (13, -0.0001, 'new', 1.234);

UPDATE kinds SET added_amount = -1.000 WHERE id = 1;

-- … and in the same transaction.
ALTER TABLE orders ADD COLUMN gift boolean DEFAULT true;
UPDATE orders SET gift = false WHERE id = 1;
INSERT INTO orders (id, customer_id, total, placed_at) VALUES (4, 1, 5.00, '2026-03-02 10:00:00+00');

-- A third one, in which the columns behind it move.
ALTER TABLE kinds DROP COLUMN a_small;
UPDATE kinds SET an_int = 43 WHERE id = 12;

TRUNCATE odd_kinds;

INSERT INTO ended VALUES (1);
