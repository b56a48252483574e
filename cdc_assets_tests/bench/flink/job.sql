CREATE CATALOG IF NOT EXISTS lake WITH (
  'type' = 'iceberg', 'catalog-type' = 'hadoop', 'warehouse' = '$WAREHOUSE'
);
CREATE DATABASE IF NOT EXISTS lake.flink;
CREATE TABLE lake.flink.turn_$N (
  aid INT, bid INT, abalance INT, filler STRING, PRIMARY KEY (aid) NOT ENFORCED
) WITH ('format-version' = '2', 'write.upsert.enabled' = 'true');
CREATE TEMPORARY TABLE IF NOT EXISTS events (
  `after` ROW<aid INT, bid INT, abalance INT, filler STRING>
) WITH (
  'connector' = 'kafka', 'topic' = '$TOPIC', 'properties.bootstrap.servers' = '$SERVERS',
  'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset', 'format' = 'json'
);
INSERT INTO lake.flink.turn_$N
SELECT `after`.aid, `after`.bid, `after`.abalance, `after`.filler FROM events;
