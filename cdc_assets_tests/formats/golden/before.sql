-- What is there before the connectors start: they read it as a snapshot. The shop's tables
-- (packages/devstack/cdc_assets_devstack/shop/postgres.sql) come first.

ALTER TABLE payments REPLICA IDENTITY FULL;

-- Every type that the replication maps exactly.
CREATE TYPE colour AS ENUM ('red', 'green', 'blue');
CREATE TABLE kinds (
    id         bigint PRIMARY KEY,
    a_bool     boolean,
    a_small    smallint,
    an_int     integer,
    a_big      bigint,
    a_real     real,
    a_double   double precision,
    a_numeric  numeric(20,4),
    a_whole    numeric(30,0),
    a_text     text,
    a_varchar  varchar(20),
    a_char     char(5),
    a_uuid     uuid,
    a_json     json,
    a_jsonb    jsonb,
    bytes      bytea,
    a_date     date,
    a_time     time,
    a_time_ms  time(3),
    a_stamp    timestamp,
    a_stamp_ms timestamp(3),
    a_stamptz  timestamptz,
    an_enum    colour,
    ints       integer[],
    texts      text[],
    numerics   numeric(12,2)[],
    stamps     timestamp[],
    with_text  text NOT NULL DEFAULT 'unknown',
    with_int   integer NOT NULL DEFAULT 7,
    with_money numeric(10,2) DEFAULT 9.99
);

-- Types that the replication refuses, or only takes as something else.
CREATE TABLE odd_kinds (
    id          bigint PRIMARY KEY,
    any_numeric numeric,
    any_more    numeric,
    an_interval interval,
    a_timetz    time with time zone,
    some_bits   bit(5),
    a_point     point,
    a_range     int4range
);

-- Values that are kept outside of the row, so that an update does not bring those it leaves
-- alone (TOAST). Kept as they are: what is compressed would stay in the row.
CREATE TABLE large (
    id   bigint PRIMARY KEY,
    n    integer NOT NULL,
    body text,
    data bytea,
    doc  jsonb,
    tags text[]
) WITH (toast_tuple_target = 128);
ALTER TABLE large ALTER body SET STORAGE EXTERNAL, ALTER data SET STORAGE EXTERNAL,
    ALTER doc SET STORAGE EXTERNAL, ALTER tags SET STORAGE EXTERNAL;

-- Its first row tells that everything before it was written.
CREATE TABLE ended (id bigint PRIMARY KEY);

INSERT INTO customers (id, public_id, name, email, born, newsletter, tags, preferences, created_at) VALUES
    (1, '11111111-1111-4111-8111-111111111111', 'Ada', 'ada@example.org', '1815-12-10', true,
     '{loyal,b2b}', '{"language": "en"}', '2026-01-01 00:00:00.123456+00'),
    (2, '22222222-2222-4222-8222-222222222222', 'Größe 雪 🎈', NULL, NULL, false,
     '{}', NULL, '2026-01-01 12:00:00+02');
INSERT INTO products VALUES
    (1, 'SKU-00001', 'Lamp', 19.90, 0.25, '{"colour": "red"}', '\x00ff10', true, '2026-02-03 04:05:06.789');
INSERT INTO orders VALUES
    (1, 1, 'placed', 120.50, NULL, '2026-03-01', '2026-02-01 10:00:00+00'),
    (2, 2, 'paid', -0.01, 'a note', NULL, '2026-02-02 10:00:00+00');
INSERT INTO payments VALUES
    ('33333333-3333-4333-8333-333333333333', 1, 120.50, 0.35, '\xdeadbeef', true, '2026-02-01 10:00:01');
INSERT INTO kinds VALUES
    (1, true, -32768, 2147483647, -9223372036854775808, 1.5, 0.1, 1234567890123456.7890,
     123456789012345678901234567890, 'text', 'varying', 'ab', '44444444-4444-4444-8444-444444444444',
     '{"a": 1,  "b": [true, null]}', '{"b": 2, "a": "é"}', '\x000102ff', '2024-02-29',
     '23:59:59.999999', '01:02:03.456', '1969-12-31 23:59:59.999999', '2026-07-08 09:10:11.123',
     '2026-07-08 09:10:11.123456+05:30', 'green', '{1,NULL,-3}', '{a,"b,c",NULL}', '{1.50,-2.25}',
     '{"2026-01-01 00:00:00.000001"}', 'given', 8, 0.00),
    (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
     NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, DEFAULT, DEFAULT, NULL);
INSERT INTO odd_kinds VALUES
    (1, 3.14159, -1e20, '1 day 02:03:04.5', '12:34:56+02', B'10110', '(1.5,-2)', '[1,10)');
INSERT INTO large VALUES
    (1, 1, repeat('body ', 130), decode(repeat('ab', 650), 'hex'), jsonb_build_object('doc', repeat('doc ', 160)),
     ARRAY[repeat('tag ', 80), repeat('gat ', 80)]);
