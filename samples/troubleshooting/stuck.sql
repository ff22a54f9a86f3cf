-- The consumption of all meters in each ten instants. A window is emitted when the meters close its time; no later
-- reading is needed.

CREATE STREAM reading (meter STRING PATH '@meter', ts INT NOT NULL PATH '@ts', kwh INT)
  WITH (source = 'samples/troubleshooting/meters.xml', element = 'reading', timestamp = 'ts');

SELECT window_start, window_end, SUM(kwh) AS used
FROM TUMBLE(TABLE reading, DESCRIPTOR(ts), 10)
GROUP BY window_start, window_end;
