-- The number of door openings in two halls, by hour. One hall is not in use: its feed emits punctuations only.

CREATE STREAM busy (hour INT NOT NULL, opened INT)
  WITH (source = 'samples/troubleshooting/busy.xml', element = 'door');

CREATE STREAM quiet (hour INT NOT NULL, opened INT)
  WITH (source = 'samples/troubleshooting/quiet.xml', element = 'door');

SELECT hour, SUM(opened) AS opened
FROM (SELECT hour, opened FROM busy UNION ALL SELECT hour, opened FROM quiet)
GROUP BY hour;
