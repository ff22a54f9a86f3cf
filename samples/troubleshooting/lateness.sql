-- The consumption of all meters in each ten instants. The meters emit no punctuations. Their slack is a guess: a
-- reading is at most five instants behind the latest one. The guess is wrong: one is nine behind.

CREATE STREAM reading (meter STRING PATH '@meter', ts INT NOT NULL PATH '@ts', kwh INT,
                       WATERMARK FOR ts AS ts - 5)
  WITH (source = 'samples/troubleshooting/unordered.xml', element = 'reading', timestamp = 'ts');

SELECT window_start, window_end, SUM(kwh) AS used
FROM TUMBLE(TABLE reading, DESCRIPTOR(ts), 10)
GROUP BY window_start, window_end;
