-- What all meters used in each ten instants, of meters that promise nothing. Somebody has guessed that a reading is at
-- most five instants behind the latest one. That is wrong: one is nine behind.

CREATE STREAM reading (meter STRING PATH '@meter', ts INT NOT NULL PATH '@ts', kwh INT,
                       WATERMARK FOR ts AS ts - 5)
  WITH (source = 'samples/complaints/unordered.xml', element = 'reading', timestamp = 'ts');

SELECT window_start, window_end, SUM(kwh) AS used
FROM TUMBLE(TABLE reading, DESCRIPTOR(ts), 10)
GROUP BY window_start, window_end;
