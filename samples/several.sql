-- Two answers from one run, which reads both sensors once.

CREATE STREAM sensor1 (sid STRING, hour INT NOT NULL, min INT, currtmp INT)
  WITH (source = 'samples/sensor1.xml', element = 'tempdata');
CREATE STREAM sensor2 (sid STRING, hour INT NOT NULL, min INT, currtmp INT)
  WITH (source = 'samples/sensor2.xml', element = 'tempdata');
CREATE VIEW reports AS SELECT currtmp, hour FROM sensor1 UNION ALL SELECT currtmp, hour FROM sensor2;

CREATE SINK hours WITH (output = 'hours/', format = 'parquet', partition_by = 'hour') AS
  SELECT hour, currtmp FROM reports;

SELECT hour, MAX(currtmp) AS maxtemp FROM reports GROUP BY hour;
