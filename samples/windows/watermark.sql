-- The same query in Flink's syntax, over the same bids without punctuations. A watermark holds for all items at once,
-- so it waits for the slowest item: an item may be up to 18 instants behind.

CREATE STREAM bid (item STRING PATH '@item', price INT, ts INT NOT NULL PATH '@ts',
                   WATERMARK FOR ts AS ts - 19)
  WITH (source = 'samples/windows/unpunctuated.xml', element = 'bid', timestamp = 'ts');

SELECT item, window_start, window_end, COUNT(*) AS bids
FROM HOP(TABLE bid, DESCRIPTOR(ts), 5, 10)
GROUP BY item, window_start, window_end
HAVING COUNT(*) >= 2;
