-- The maximum temperature per hour over all sensors of a warehouse. The result of an hour is emitted when every feed
-- has closed the hour.

CREATE STREAM sensor1 (sid STRING, hour INT NOT NULL, min INT, currtmp INT)
  WITH (source = 'samples/sensor1.xml', element = 'tempdata');

CREATE STREAM sensor2 (sid STRING, hour INT NOT NULL, min INT, currtmp INT)
  WITH (source = 'samples/sensor2.xml', element = 'tempdata');

SELECT MAX(currtmp) AS maxtemp, hour FROM
  (SELECT currtmp, hour FROM sensor1 UNION SELECT currtmp, hour FROM sensor2)
GROUP BY hour;
