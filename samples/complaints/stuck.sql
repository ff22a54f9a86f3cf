-- What all meters used in each ten instants. A window leaves when the meters say that its time is over; no later
-- reading has to come for that.

CREATE STREAM reading (meter STRING PATH '@meter', ts INT NOT NULL PATH '@ts', kwh INT)
  WITH (source = 'samples/complaints/meters.xml', element = 'reading', timestamp = 'ts');

SELECT window_start, window_end, SUM(kwh) AS used
FROM TUMBLE(TABLE reading, DESCRIPTOR(ts), 10)
GROUP BY window_start, window_end;
