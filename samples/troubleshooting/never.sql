-- Two feeds that never end, and an hourly result that needs both. Only one promises punctuations by hour.

CREATE STREAM busy (sid STRING, hour INT NOT NULL, opened INT)
  WITH (source = 'tcp://127.0.0.1:7001', element = 'door') PUNCTUATED BY (hour);

CREATE STREAM quiet (sid STRING NOT NULL, hour INT NOT NULL, opened INT)
  WITH (source = 'tcp://127.0.0.1:7002', element = 'door') PUNCTUATED BY (sid);

SELECT hour, SUM(opened) AS opened
FROM (SELECT hour, opened FROM busy UNION ALL SELECT hour, opened FROM quiet)
GROUP BY hour;
